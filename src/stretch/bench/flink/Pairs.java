package stretch.bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The tuples of both inputs of a join, in memory, in the order of their times: left, right, left, right.
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
}
