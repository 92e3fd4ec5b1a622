package stretch.bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * The tuples of two inputs, in memory, in the order of their times: left, right, left, right.
 *
 * <p>The file holds little-endian columns, one after the other: how many (int64), times (int64), first and second
 * attribute (int32, float32).
 */
final class Pairs {
    static volatile Pairs current; // for functions, which are copied to subtasks without it

    final long[] times;
    final int[] firsts;
    final float[] seconds;

    private Pairs(int rows) {
        times = new long[rows];
        firsts = new int[rows];
        seconds = new float[rows];
    }

    static Pairs from(String file) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(Path.of(file))).order(ByteOrder.LITTLE_ENDIAN);
        int rows = (int) bytes.getLong();
        Pairs pairs = new Pairs(rows);
        bytes.asLongBuffer().get(pairs.times);
        bytes.position(bytes.position() + 8 * rows);
        bytes.asIntBuffer().get(pairs.firsts);
        bytes.position(bytes.position() + 4 * rows);
        bytes.asFloatBuffer().get(pairs.seconds);
        current = pairs;
        return pairs;
    }

    int size() {
        return times.length;
    }

    /** Return the tuples from a number on, each or every other one, from one source. */
    DataStream<Tuple> stream(StreamExecutionEnvironment environment, int first, int step) {
        long count = (size() - first + step - 1) / step;
        return environment
                .fromSource(new NumberSequenceSource(0, count - 1), WatermarkStrategy.noWatermarks(), "pairs")
                .setParallelism(1)
                .map(new Take(first, step))
                .setParallelism(1);
    }

    /** A tuple of either input; public fields and an empty constructor make it a POJO, which Flink serialises fast. */
    public static final class Tuple {
        public int number;
        public long time;
        public int first;
        public float second;
    }

    private static final class Take extends RichMapFunction<Long, Tuple> {
        private final int first;
        private final int step;

        Take(int first, int step) {
            this.first = first;
            this.step = step;
        }

        @Override
        public Tuple map(Long index) {
            Pairs pairs = current;
            int number = index.intValue() * step + first;
            Stage.current.await(number);
            Tuple tuple = new Tuple();
            tuple.number = number;
            tuple.time = pairs.times[number];
            tuple.first = pairs.firsts[number];
            tuple.second = pairs.seconds[number];
            return tuple;
        }
    }
}
