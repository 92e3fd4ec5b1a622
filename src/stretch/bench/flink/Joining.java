package stretch.bench;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;
import stretch.bench.Pairs.Tuple;

/**
 * The band join, which Flink has no operator for: every tuple to every instance, which compares it with the tuples of
 * the other input that it keeps, its share of all, in arrays of its own (managed state is three times slower).
 *
 * <p>One source brings both inputs, merged: that spares Flink the merging, and the drift of two sources.
 */
final class Joining {
    static void build(StreamExecutionEnvironment environment, Pairs pairs, Rival.Task task) {
        DataStream<Tuple> both = pairs.stream(environment, 0, 1);
        both.broadcast().process(new Band(task.number("window"))).sinkTo(new DiscardingSink<>());
    }

    /** A queue of tuples in arrays: grows at one end, is purged at the other, and moves down when it is full. */
    private static final class Kept {
        long[] times = new long[1 << 12];
        int[] firsts = new int[1 << 12];
        float[] seconds = new float[1 << 12];
        int start;
        int end;

        void add(Tuple tuple) {
            if (end == times.length) {
                int live = end - start;
                int size = 2 * live > times.length ? 2 * times.length : times.length;
                times = moved(times, new long[size], live);
                firsts = moved(firsts, new int[size], live);
                seconds = moved(seconds, new float[size], live);
                start = 0;
                end = live;
            }
            times[end] = tuple.time;
            firsts[end] = tuple.first;
            seconds[end] = tuple.second;
            end++;
        }

        private <A> A moved(A from, A to, int live) {
            System.arraycopy(from, start, to, 0, live);
            return to;
        }

        void purge(long before) {
            while (start < end && times[start] <= before) {
                start++;
            }
        }
    }

    private static final class Band extends ProcessFunction<Tuple, Long> {
        private static final int REACH = 10;

        private final long window;
        private transient Kept[] kept;
        private transient Stage stage;
        private transient Stage.Outcome outcome;
        private transient int instance;
        private transient int instances;

        Band(long window) {
            this.window = window;
        }

        @Override
        public void open(OpenContext context) {
            kept = new Kept[] {new Kept(), new Kept()};
            stage = Stage.current;
            instance = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            instances = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            outcome = stage.outcome(instance);
        }

        @Override
        public void processElement(Tuple tuple, Context context, Collector<Long> out) {
            int input = tuple.number & 1;
            Kept others = kept[1 - input];
            others.purge(tuple.time - window);
            if (stage.isMeasured(tuple.number)) {
                stage.begin();
                compare(tuple, others, out);
                outcome.tuples++;
                outcome.work += others.end - others.start;
                outcome.last = System.nanoTime();
            }
            if (tuple.number / 2 % instances == instance) {
                kept[input].add(tuple);
            }
        }

        private void compare(Tuple tuple, Kept others, Collector<Long> out) {
            int[] firsts = others.firsts;
            float[] seconds = others.seconds;
            int first = tuple.first;
            float second = tuple.second;
            for (int place = others.start, end = others.end; place < end; place++) {
                if (Math.abs(firsts[place] - first) <= REACH && Math.abs(seconds[place] - second) <= REACH) {
                    outcome.results++;
                    outcome.total += first + firsts[place];
                    if (stage.isPaced()) {
                        outcome.late(System.nanoTime() - stage.due(tuple.number));
                    }
                    out.collect(tuple.time);
                }
            }
        }
    }

    private Joining() {}
}
