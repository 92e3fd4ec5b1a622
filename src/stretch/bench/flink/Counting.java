package stretch.bench;

import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;
import stretch.bench.Tweets.Tweet;

/** Words, or pairs of words, counted in sliding windows: a copy per key, then key by, window, aggregate. */
final class Counting {
    static void build(StreamExecutionEnvironment environment, Tweets tweets, Rival.Task task) {
        int parallelism = environment.getParallelism();
        int distance = task.number("distance"); // of the words of a pair; 0: words
        boolean occurrences = task.number("occurrences") == 1;
        SlidingEventTimeWindows windows = SlidingEventTimeWindows.of(
                Duration.ofMillis(task.number("size")), Duration.ofMillis(task.number("advance")));
        SingleOutputStreamOperator<Tweet> input =
                tweets.stream(environment, parallelism).assignTimestampsAndWatermarks(Tweets.byTime());
        if (distance == 0) {
            input.flatMap(new Words(occurrences))
                    .keyBy(word -> word)
                    .window(windows)
                    .aggregate(new Count<String>(), new Report<String>(), Types.LONG, Types.LONG, Types.TUPLE(
                            Types.LONG, Types.STRING, Types.LONG))
                    .sinkTo(new Results<>());
        } else {
            TypeInformation<Tuple2<String, String>> pair = Types.TUPLE(Types.STRING, Types.STRING);
            input.flatMap(new Pairing(distance, occurrences))
                    .returns(pair)
                    .keyBy(words -> words, pair)
                    .window(windows)
                    .aggregate(new Count<Tuple2<String, String>>(), new Report<Tuple2<String, String>>(),
                            Types.LONG, Types.LONG, Types.TUPLE(Types.LONG, pair, Types.LONG))
                    .sinkTo(new Results<>());
        }
    }

    /** The copies: a word each, or each different word once. */
    private static final class Words implements FlatMapFunction<Tweet, String> {
        private final boolean occurrences;
        private final Set<String> seen = new HashSet<>();

        Words(boolean occurrences) {
            this.occurrences = occurrences;
        }

        @Override
        public void flatMap(Tweet tweet, Collector<String> out) {
            seen.clear();
            for (String word : tweet.text.split(" ")) {
                if (occurrences || seen.add(word)) {
                    out.collect(word);
                }
            }
        }
    }

    /** The copies: a pair of words each, or each different pair once. */
    private static final class Pairing implements FlatMapFunction<Tweet, Tuple2<String, String>> {
        private final int distance;
        private final boolean occurrences;
        private final Set<Tuple2<String, String>> seen = new HashSet<>();

        Pairing(int distance, boolean occurrences) {
            this.distance = distance;
            this.occurrences = occurrences;
        }

        @Override
        public void flatMap(Tweet tweet, Collector<Tuple2<String, String>> out) {
            seen.clear();
            String[] words = tweet.text.split(" ");
            for (int first = 0; first < words.length; first++) {
                int end = (int) Math.min(words.length, first + 1L + distance);
                for (int second = first + 1; second < end; second++) {
                    Tuple2<String, String> pair = Tuple2.of(words[first], words[second]);
                    if (occurrences || seen.add(pair)) {
                        out.collect(pair);
                    }
                }
            }
        }
    }

    private static final class Count<K> implements AggregateFunction<K, Long, Long> {
        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(K key, Long count) {
            return count + 1;
        }

        @Override
        public Long getResult(Long count) {
            return count;
        }

        @Override
        public Long merge(Long one, Long other) {
            return one + other;
        }
    }

    /** A row: right boundary, key, count. */
    private static final class Report<K> extends ProcessWindowFunction<Long, Tuple3<Long, K, Long>, K, TimeWindow> {
        @Override
        public void process(K key, Context context, Iterable<Long> counts, Collector<Tuple3<Long, K, Long>> out) {
            out.collect(Tuple3.of(context.window().getEnd(), key, counts.iterator().next()));
        }
    }

    private Counting() {}
}
