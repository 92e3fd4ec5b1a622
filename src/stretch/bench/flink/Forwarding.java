package stretch.bench;

import java.util.ArrayDeque;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.co.CoProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;
import stretch.bench.Pairs.Tuple;

/**
 * Every tuple of two sorted inputs to every instance, which merges them by time.
 *
 * <p>Flink has no operator that merges; sorting with its timers takes three times as long, so each instance merges the
 * two queues by hand: a tuple goes on when the other input has shown one that is not earlier.
 */
final class Forwarding {
    static void build(StreamExecutionEnvironment environment, Pairs pairs) {
        DataStream<Tuple> left = pairs.stream(environment, 0, 2);
        DataStream<Tuple> right = pairs.stream(environment, 1, 2);
        left.broadcast().connect(right.broadcast()).process(new Merge()).sinkTo(new DiscardingSink<>());
    }

    private static final class Merge extends CoProcessFunction<Tuple, Tuple, Long> {
        private transient ArrayDeque<Tuple> left;
        private transient ArrayDeque<Tuple> right;
        private transient Stage stage;
        private transient Stage.Outcome outcome;

        @Override
        public void open(org.apache.flink.api.common.functions.OpenContext context) {
            left = new ArrayDeque<>();
            right = new ArrayDeque<>();
            stage = Stage.current;
            outcome = stage.outcome(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
        }

        @Override
        public void processElement1(Tuple tuple, Context context, Collector<Long> out) {
            left.add(tuple);
            merge(out);
        }

        @Override
        public void processElement2(Tuple tuple, Context context, Collector<Long> out) {
            right.add(tuple);
            merge(out);
        }

        private void merge(Collector<Long> out) {
            while (!left.isEmpty() && !right.isEmpty()) {
                forward(left.peek().time <= right.peek().time ? left.poll() : right.poll(), out);
            }
        }

        private void forward(Tuple tuple, Collector<Long> out) {
            outcome.tuples++;
            outcome.results++;
            outcome.total += tuple.first;
            outcome.last = System.nanoTime();
            if (stage.isPaced()) {
                outcome.late(outcome.last - stage.due(tuple.number));
            }
            out.collect(tuple.time);
        }
    }

    private Forwarding() {}
}
