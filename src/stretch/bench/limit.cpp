// The limit program: the band join as one would write it for nothing but speed, on one thread.
//
// Struct of arrays, compiled for the machine, pairs written to memory. Tuples 2s and 2s + 1 are the left and the right
// one of step s; each is compared with the other side's tuples of the last `window` steps that came before it. A block
// is counted without branches, and gone through again only if something in it matches.

#include <cmath>
#include <cstdint>
#include <cstdlib>

static int64_t compare(int32_t first, float second, const int32_t* __restrict__ firsts,
                       const float* __restrict__ seconds, int64_t low, int64_t high, int64_t* rows) {
  int64_t count = 0;
  for (int64_t block = low; block < high; block += 1024) {
    const int64_t end = block + 1024 < high ? block + 1024 : high;
    int32_t hits = 0;
    for (int64_t j = block; j < end; j++)
      hits += (std::abs(first - firsts[j]) <= 10) & (std::fabs(second - seconds[j]) <= 10.0f);
    if (hits == 0) continue;
    for (int64_t j = block; j < end; j++)
      if ((std::abs(first - firsts[j]) <= 10) & (std::fabs(second - seconds[j]) <= 10.0f)) rows[count++] = j;
  }
  return count;
}

// Returns the number of pairs; `probes` and `rows` have room for them, and for those of one tuple more.
extern "C" int64_t join(const int32_t* x, const float* y, const int32_t* a, const float* b, int64_t from, int64_t to,
                        int64_t window, int64_t* probes, int64_t* rows, int64_t room) {
  int64_t count = 0;
  for (int64_t step = from; step < to; step++) {
    const int64_t low = step + 1 > window ? step + 1 - window : 0;
    for (int side = 0; side < 2; side++) {
      const int64_t found = side == 0 ? compare(x[step], y[step], a, b, low, step, rows + count)
                                      : compare(a[step], b[step], x, y, low, step + 1, rows + count);
      for (int64_t k = 0; k < found; k++) probes[count + k] = 2 * step + side;
      count += found;
      if (count > room) return -1;
    }
  }
  return count;
}
