package stretch.bench;

import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * One run: when its tuples are due, and what came out. The subtasks of a MiniCluster run in one JVM and share it.
 *
 * <p>The clock starts with the first tuple that is measured, and stops with the last result or the last tuple that an
 * instance has processed.
 */
final class Stage {
    static volatile Stage current;

    private static final int BUCKETS = 600_000; // of 0.1 ms: up to a minute
    private static final long BUCKET_NANOS = 100_000;
    private static final long NAP_NANOS = 50_000;

    private final double rate; // tuples per second; 0: as fast as possible
    private final long from; // the first tuple that is measured, and paced: until then windows fill
    private final AtomicLong begun = new AtomicLong(Long.MIN_VALUE);
    private final Outcome[] outcomes;

    /** What one subtask has seen; only its own thread writes it. */
    static final class Outcome {
        long tuples;
        long results;
        long total;
        long work; // comparisons, where there are any
        long last; // when it did something last
        final int[] latencies = new int[BUCKETS];

        void late(long nanos) {
            latencies[(int) Math.max(0, Math.min(BUCKETS - 1, nanos / BUCKET_NANOS))]++;
        }
    }

    Stage(int parallelism, double rate, long from) {
        this.rate = rate;
        this.from = from;
        outcomes = new Outcome[parallelism];
        for (int number = 0; number < parallelism; number++) {
            outcomes[number] = new Outcome();
        }
    }

    Outcome outcome(int subtask) {
        return outcomes[subtask];
    }

    boolean isMeasured(long number) {
        return number >= from;
    }

    /** Start the clock, unless it runs. */
    void begin() {
        if (begun.get() == Long.MIN_VALUE) {
            begun.compareAndSet(Long.MIN_VALUE, System.nanoTime());
        }
    }

    boolean isPaced() {
        return rate > 0;
    }

    /** Return when a tuple is due. */
    long due(long number) {
        return begun.get() + (long) ((number - from) * 1e9 / rate);
    }

    /** Wait until a tuple is due. */
    void await(long number) {
        if (from == 0 || (isPaced() && number >= from)) {
            begin();
        }
        if (isPaced() && number >= from) {
            for (long due = due(number), left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                LockSupport.parkNanos(Math.min(left, NAP_NANOS));
            }
        }
    }

    String answer() {
        long tuples = 0, results = 0, total = 0, work = 0, last = begun.get();
        long[] latencies = new long[BUCKETS];
        for (Outcome outcome : outcomes) {
            tuples += outcome.tuples;
            results += outcome.results;
            total += outcome.total;
            work += outcome.work;
            last = Math.max(last, outcome.last);
            for (int bucket = 0; bucket < BUCKETS; bucket++) {
                latencies[bucket] += outcome.latencies[bucket];
            }
        }
        return String.format(
                Locale.ROOT,
                "{\"seconds\": %.6f, \"tuples\": %d, \"results\": %d, \"total\": %d, \"work\": %d,"
                        + " \"p50_ms\": %s, \"p99_ms\": %s}",
                (last - begun.get()) / 1e9, tuples, results, total, work,
                percentile(latencies, 0.50), percentile(latencies, 0.99));
    }

    private static String percentile(long[] latencies, double share) {
        long all = 0;
        for (long count : latencies) {
            all += count;
        }
        if (all == 0) {
            return "null";
        }
        long below = 0;
        int bucket = 0;
        while ((below += latencies[bucket]) < share * all) {
            bucket++;
        }
        return String.format(Locale.ROOT, "%.1f", (bucket + 1) * BUCKET_NANOS / 1e6);
    }
}
