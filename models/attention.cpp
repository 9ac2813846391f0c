// Attention over packed sequences on the CPU: softmax(q k^T / sqrt(Dh)) v within each sequence.
//
// One task is one head of one sequence; threads take the next task from a counter. Sums are in
// float32 and in an order that depends on the sequence alone, so a text's result is the same bits
// in every batch. No header of any library is needed: the build asks for nothing but a compiler.

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr long W = 16;  // floats in a vector
constexpr long R = 4;   // query rows computed together
constexpr long SMALL = 1 << 20;  // multiplications that are not worth waking other threads

typedef float Floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32), aligned(2), may_alias));

#define INLINE inline __attribute__((always_inline))

INLINE Floats load(const float* p) { return *reinterpret_cast<const Floats*>(p); }
INLINE Floats load(const uint16_t* p) {  // bfloat16 is the upper half of a float
  return (Floats)(__builtin_convertvector(*reinterpret_cast<const Halves*>(p), Words) << 16);
}
INLINE void store(float* p, Floats x) { *reinterpret_cast<Floats*>(p) = x; }
INLINE void store(uint16_t* p, Floats x) {  // rounded to nearest, ties to even
  Words bits = (Words)x;
  bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  *reinterpret_cast<Halves*>(p) = __builtin_convertvector(bits, Halves);
}

// e^x for x <= 0, to about one unit in the last place: 2^n times a polynomial (Cephes' expf).
INLINE Floats exponential(Floats x) {
  x = x < -87.0f ? x * 0 - 87.0f : x;
  const Floats shifted = x * 1.44269504f + 12582912.0f;  // the low bits now hold n
  const Floats n = shifted - 12582912.0f;
  x = x - n * 0.693359375f + n * 2.12194440e-4f;
  Floats y = x * 1.9875691500e-4f + 1.3981999507e-3f;
  y = y * x + 8.3334519073e-3f;
  y = y * x + 4.1665795894e-2f;
  y = y * x + 1.6666665459e-1f;
  y = y * x + 5.0000001201e-1f;
  y = y * (x * x) + x + 1.0f;
  return (Floats)((Ints)y + ((Ints)shifted << 23));
}

// R rows of a (k wide) times J vectors of columns of b: sums[R][J].
template <long J>
INLINE void multiply(const float* a, long lda, const float* b, long ldb, long k, Floats (&sums)[R][J]) {
  Floats held[R][J] = {};  // in registers: every loop over it is unrolled
  for (long i = 0; i < k; i++) {
#pragma GCC unroll 4
    for (long j = 0; j < J; j++) {
      const Floats column = load(b + i * ldb + j * W);
#pragma GCC unroll 4
      for (long r = 0; r < R; r++) held[r][j] += a[r * lda + i] * column;
    }
  }
#pragma GCC unroll 4
  for (long r = 0; r < R; r++)
#pragma GCC unroll 4
    for (long j = 0; j < J; j++) sums[r][j] = held[r][j];
}

struct Call {
  const void* qkv;  // (T, 3, H, Dh)
  void* out;        // (T, H * Dh)
  const int64_t* starts;
  const int64_t* lengths;
  long sequences, heads, size;
};

// What one thread works in, grown to the longest sequence it has seen.
struct Space {
  std::vector<float> memory;
  float *q, *k, *v, *scores;  // (rows, Dh), (Dh, padded), (length, Dh), (R, padded)

  INLINE void fit(long length, long padded, long size) {
    const long rows = (length + R - 1) / R * R;
    const long needed = (rows + padded + length) * size + R * padded;
    if (needed > static_cast<long>(memory.size())) memory.resize(needed);
    q = memory.data();
    k = q + rows * size;
    v = k + padded * size;
    scores = v + length * size;
    std::memset(q + length * size, 0, ((rows - length) * size + padded * size) * sizeof(float));
  }
};

template <typename T>
INLINE void gather(const Call& call, Space& space, long start, long length, long padded, long head) {
  const long size = call.size, row = 3 * call.heads * size;
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  space.fit(length, padded, size);
  for (long t = 0; t < length; t++) {
    const T* p = static_cast<const T*>(call.qkv) + (start + t) * row + head * size;
    for (long d = 0; d < size; d += W) {
      store(&space.q[t * size + d], load(p + d) * scale);
      const Floats key = load(p + call.heads * size + d);
#pragma GCC unroll 16
      for (long i = 0; i < W; i++) space.k[(d + i) * padded + t] = key[i];
      store(&space.v[t * size + d], load(p + 2 * call.heads * size + d));
    }
  }
}

INLINE void score(Space& space, const float* q, long size, long padded) {
  long j = 0;
  for (; j + 2 * W <= padded; j += 2 * W) {
    Floats sums[R][2];
    multiply<2>(q, size, &space.k[j], padded, size, sums);
    for (long r = 0; r < R; r++)
      for (long c = 0; c < 2; c++) store(&space.scores[r * padded + j + c * W], sums[r][c]);
  }
  if (j < padded) {
    Floats sums[R][1];
    multiply<1>(q, size, &space.k[j], padded, size, sums);
    for (long r = 0; r < R; r++) store(&space.scores[r * padded + j], sums[r][0]);
  }
}

// Turns a row of scores into weights that are not divided by their sum yet; returns the sum.
INLINE float soften(float* row, long length, long padded) {
  // Columns beyond the sequence weigh e^-87, which a sum of at least 1 does not notice.
  for (long j = length; j < padded; j++) row[j] = -1e30f;
  Floats peaks = load(row), total = {};
  for (long j = W; j < padded; j += W) {
    const Floats x = load(row + j);
    peaks = x > peaks ? x : peaks;
  }
  float peak = peaks[0], sum = 0;
  for (long i = 1; i < W; i++) peak = peaks[i] > peak ? peaks[i] : peak;
  for (long j = 0; j < padded; j += W) {
    const Floats x = exponential(load(row + j) - peak);
    store(row + j, x);
    total += x;
  }
  for (long i = 0; i < W; i++) sum += total[i];
  return sum;
}

template <typename T, long J>
INLINE void mix(const Call& call, Space& space, T* out, long left, long length, long padded, long d,
                const float (&sums)[R]) {
  Floats rows[R][J];
  multiply<J>(space.scores, padded, &space.v[d], call.size, length, rows);
  for (long r = 0; r < R && r < left; r++)
    for (long j = 0; j < J; j++)
      store(out + r * call.heads * call.size + d + j * W, rows[r][j] / sums[r]);
}

template <typename T>
INLINE void attend(const Call& call, Space& space, long task) {
  const long sequence = task / call.heads, head = task % call.heads;
  const long start = call.starts[sequence], length = call.lengths[sequence];
  const long padded = (length + W - 1) / W * W;
  gather<T>(call, space, start, length, padded, head);
  for (long t = 0; t < length; t += R) {
    score(space, &space.q[t * call.size], call.size, padded);
    float sums[R];
    for (long r = 0; r < R; r++) sums[r] = soften(&space.scores[r * padded], length, padded);
    T* out = static_cast<T*>(call.out) + ((start + t) * call.heads + head) * call.size;
    long d = 0;
    for (; d + 2 * W <= call.size; d += 2 * W)
      mix<T, 2>(call, space, out, length - t, length, padded, d, sums);
    if (d < call.size) mix<T, 1>(call, space, out, length - t, length, padded, d, sums);
  }
}

#if defined(__x86_64__)
#define EVERY_CPU __attribute__((flatten, target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EVERY_CPU __attribute__((flatten))
#endif

EVERY_CPU void attend_float32(const Call& call, Space& space, long task) {
  attend<float>(call, space, task);
}
EVERY_CPU void attend_bfloat16(const Call& call, Space& space, long task) {
  attend<uint16_t>(call, space, task);
}

struct Run {
  const Call& call;
  void (*attend)(const Call&, Space&, long);
  std::atomic<long> next;
};

// What every thread does: the next task, until there is none.
void work(void* data) {
  static thread_local Space space;
  Run& run = *static_cast<Run*>(data);
  const long tasks = run.call.sequences * run.call.heads;
  for (long task; (task = run.next++) < tasks;) run.attend(run.call, space, task);
}

// GNU OpenMP's entry: run a function on all threads (0: as many as are set), flags 0.
using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

void start(const Call& call, Parallel parallel, void (*attend)(const Call&, Space&, long)) {
  Run run{call, attend, {0}};
  long products = 0;
  for (long b = 0; b < call.sequences; b++) products += call.lengths[b] * call.lengths[b];
  if (2 * products * call.heads * call.size > SMALL)
    parallel(work, &run, 0, 0);
  else
    work(&run);
}

}  // namespace

extern "C" {

// parallel: the caller's own OpenMP runtime, so that there is one pool of threads.

void attention_float32(Parallel parallel, const void* qkv, void* out, const int64_t* starts,
                       const int64_t* lengths, int64_t sequences, int64_t heads, int64_t size) {
  start({qkv, out, starts, lengths, sequences, heads, size}, parallel, attend_float32);
}

void attention_bfloat16(Parallel parallel, const void* qkv, void* out, const int64_t* starts,
                        const int64_t* lengths, int64_t sequences, int64_t heads, int64_t size) {
  start({qkv, out, starts, lengths, sequences, heads, size}, parallel, attend_bfloat16);
}
}
