package stretch.bench;

import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.tuple.Tuple3;

/**
 * Reads every result: adds up rows and counts, and how long after the tuple that completed their window they came.
 * That tuple is the first one at or after the right boundary; results of windows that only the end completed have none.
 */
final class Results<K> implements Sink<Tuple3<Long, K, Long>> {
    @Override
    public SinkWriter<Tuple3<Long, K, Long>> createWriter(WriterInitContext context) {
        return new Writer<>(Stage.current, context.getTaskInfo().getIndexOfThisSubtask());
    }

    private static final class Writer<K> implements SinkWriter<Tuple3<Long, K, Long>> {
        private final Stage stage;
        private final Stage.Outcome outcome;
        private final Tweets tweets = Tweets.current;
        private long right = Long.MIN_VALUE; // of the last result
        private long due = Long.MAX_VALUE; // when the tuple was due that completed it

        Writer(Stage stage, int subtask) {
            this.stage = stage;
            outcome = stage.outcome(subtask);
        }

        @Override
        public void write(Tuple3<Long, K, Long> result, Context context) {
            outcome.results++;
            outcome.total += result.f2;
            outcome.last = System.nanoTime();
            if (stage.isPaced()) {
                if (result.f0 != right) {
                    right = result.f0;
                    int completing = tweets.firstFrom(right);
                    due = completing < tweets.size() ? stage.due(completing) : Long.MAX_VALUE;
                }
                if (due != Long.MAX_VALUE) {
                    outcome.late(outcome.last - due);
                }
            }
        }

        @Override
        public void flush(boolean endOfInput) {}

        @Override
        public void close() {}
    }
}
