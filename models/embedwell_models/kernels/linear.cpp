// One linear layer on the CPU: activation(x W^T + b), or its gated form, for models whose layers
// are not in encoder.cpp.
// The order of a row's computation depends only on the row, so its result is bit-identical in every
// batch and on any number of threads.

#include <algorithm>
#include <type_traits>

#include "abi.h"
#include "arena.h"
#include "rows.h"
#include "team.h"

namespace {

struct Linear {
  Matrix matrix;           // a gated form alternates panels of gate and up
  int64_t depth, columns;  // of the matrix
  Activation activation;
  int64_t gated;

  long width() const { return gated ? columns / 2 : columns; }
};

struct LinearCall {
  const Linear* linear;
  const float* x;         // (T, depth)
  const float* residual;  // (T, width), or null
  float* out;             // (T, width)
  int64_t rows;           // T
};

// The maximum of 0 and x W^T + b over the rows of each sequence. The results of all rows are never
// in memory together, because the logits of a vocabulary would take gigabytes.
struct RowMaximumCall {
  const Linear* linear;
  const float* x;              // (T, depth)
  const int64_t* sequence_of;  // (T,): the sequence of each row
  float* maxima;               // (sequences, columns), zeros before the call
  int64_t rows;                // T
};

// The left operand of a product, for some rows.
template <typename Kind>
struct Operands {
  Rows<Kind> rows;

  Operands(Arena& arena, long count, long depth)
      : rows{arena.take<typename Kind::Operand>((count + SLACK) * depth), arena.take<float>(count),
             arena.take<int32_t>(count)} {}
};

template <typename Kind>
INLINE void stage(const float* x, const Linear& linear, const Rows<Kind>& rows, long row) {
  if constexpr (std::is_same_v<typename Kind::Operand, float>)
    // Copied, because a product may read past its last row.
    std::memcpy(rows.data + row * linear.depth, x, linear.depth * sizeof(float));
  prepare(x, linear.depth, linear.matrix, rows, row);
}

// A panel of gates waits in the result for the following panel of up.
template <typename Kind>
INLINE void write(const LinearCall& call, long row, long column, Floats y) {
  const Linear& linear = *call.linear;
  const bool gates = linear.gated && column / PANEL % 2 == 0;
  const bool gated = linear.gated && !gates;
  if (linear.gated) column = column / (2 * PANEL) * PANEL + column % PANEL;
  const long place = row * linear.width() + column;
  y = gated ? load(call.out + place) * y : activate<Kind::exact>(y, linear.activation);
  if (call.residual && !gates) y += load(call.residual + place);
  store(call.out + place, y);
}

// Computes some rows of the result by a team that shares their columns.
template <typename Kind>
void compute(const LinearCall& call, long first, long count, const Rows<Kind>& operands,
             Member me) {
  const Linear& linear = *call.linear;
  const auto rows = me.share(count), columns = me.share(linear.columns / COLUMNS);
  for (long row = rows.first; row < rows.last; row++)
    stage(call.x + (first + row) * linear.depth, linear, operands, row);
  me.wait();
  const auto panels = linear.matrix.read<Kind>(linear.depth);
  multiply(operands.data, linear.depth, count, panels, linear.depth,
           {columns.first * COLUMNS, columns.last * COLUMNS},
           [&](long row, long column, typename Kind::Sums sums) APART {
             write<Kind>(call, first + row, column,
                         finish(sums, linear.matrix, operands, row, column));
           });
}

// Either all threads share all rows, or each thread takes its own blocks.
template <typename Kind>
struct Run {
  const LinearCall& call;
  const bool together;
  const long block;  // rows
  Threads threads;
  const Rows<Kind>* operands;
  Barrier barrier;
  std::atomic<long> rank{0}, next{0};
  std::atomic<bool> out_of_memory{false};  // a thread lacked the memory for its block
};

// Equal blocks of rows whose operands fit a core's own cache.
template <typename Kind>
long block(const LinearCall& call, long threads) {
  constexpr long bytes = 1 << 20, step = 16;
  const long row = call.linear->depth * static_cast<long>(sizeof(typename Kind::Operand));
  const long most = std::max(bytes / row, MIN_ROWS), rounds = call.rows / (most * threads) + 1;
  return round_up((call.rows + rounds * threads - 1) / (rounds * threads), step);
}

template <typename Kind>
void work(void* data) {
  auto& run = *static_cast<Run<Kind>*>(data);
  const Tiles tiles;
  if (run.together) {
    const Member me{run.rank++, run.threads(), &run.barrier};
    return compute(run.call, 0, run.call.rows, *run.operands, me);
  }
  for (long first; (first = run.next.fetch_add(run.block)) < run.call.rows;) {
    const long count = std::min<long>(run.block, run.call.rows - first);
    if (!scratch.rows.reserve<Operands<Kind>>(count, run.call.linear->depth)) {
      run.out_of_memory = true;
      return;
    }
    const auto operands = scratch.rows.lay_out<Operands<Kind>>(count, run.call.linear->depth);
    compute(run.call, first, count, operands.rows, {0, 1, nullptr});
  }
}

template <typename Kind>
struct RowMaximumRun {
  const RowMaximumCall& call;
  const long block;  // rows
  Threads threads;
  const Rows<Kind>* operands;
  Barrier barrier;
  std::atomic<long> rank{0};
};

// All threads share each block of rows, and each thread has its own columns.
template <typename Kind>
void row_maximum_work(void* data) {
  auto& run = *static_cast<RowMaximumRun<Kind>*>(data);
  const RowMaximumCall& call = run.call;
  const Linear& linear = *call.linear;
  const Rows<Kind>& operands = *run.operands;
  const Tiles tiles;
  const Member me{run.rank++, run.threads(), &run.barrier};
  const auto columns = me.share(linear.columns / COLUMNS);
  for (long first = 0; first < call.rows; first += run.block) {
    const long count = std::min<long>(run.block, call.rows - first);
    const auto rows = me.share(count);
    for (long row = rows.first; row < rows.last; row++)
      stage(call.x + (first + row) * linear.depth, linear, operands, row);
    me.wait();
    multiply(operands.data, linear.depth, count, linear.matrix.read<Kind>(linear.depth),
             linear.depth, {columns.first * COLUMNS, columns.last * COLUMNS},
             [&](long row, long column, typename Kind::Sums sums) {
               const long sequence = call.sequence_of[first + row];
               float* maximum = call.maxima + sequence * linear.columns + column;
               const Floats y = finish(sums, linear.matrix, operands, row, column);
               store(maximum, larger(load(maximum), y));
             });
    me.wait();
  }
}

// Returns whether there was enough memory.
template <typename Kind>
bool row_maximum(const RowMaximumCall& call, Parallel parallel, Threads threads, long count) {
  constexpr long bytes = 1 << 20;  // bytes of operands that fit a core's own cache
  const long depth = call.linear->depth;
  const long row = depth * static_cast<long>(sizeof(typename Kind::Operand));
  const long block = std::min<long>(std::max(bytes / row, MIN_ROWS), call.rows);
  if (!call.rows) return true;
  if (!scratch.shared.reserve<Operands<Kind>>(block, depth)) return false;
  const auto operands = scratch.shared.lay_out<Operands<Kind>>(block, depth);
  RowMaximumRun<Kind> run{call, block, threads, &operands.rows, {}};
  parallel(row_maximum_work<Kind>, &run, static_cast<unsigned>(count));
  return true;
}

// Returns whether there was enough memory.
template <typename Kind>
bool linear(const LinearCall& call, Parallel parallel, Threads threads, long count) {
  if (!call.rows) return true;
  const bool together = count > 1 && call.rows < MIN_ROWS * count;
  const long rows = together ? call.rows : 0;
  if (!scratch.shared.reserve<Operands<Kind>>(rows, call.linear->depth)) return false;
  const auto operands = scratch.shared.lay_out<Operands<Kind>>(rows, call.linear->depth);
  Run<Kind> run{call, together, block<Kind>(call, count), threads, &operands.rows, {}};
  parallel(work<Kind>, &run, static_cast<unsigned>(count));
  return !run.out_of_memory;
}

}  // namespace

extern "C" {

int64_t linear_abi(int64_t index) { return abi<Matrix, Linear, LinearCall, RowMaximumCall>(index); }

bool linear_float32(const LinearCall* call, Parallel parallel, Threads threads, int64_t count) {
  return linear<Single>(*call, parallel, threads, count);
}
bool row_maximum_float32(const RowMaximumCall* call, Parallel parallel, Threads threads,
                         int64_t count) {
  return row_maximum<Single>(*call, parallel, threads, count);
}
#ifdef BFLOAT16_PRODUCTS
bool linear_bfloat16(const LinearCall* call, Parallel parallel, Threads threads, int64_t count) {
  return linear<BFloats>(*call, parallel, threads, count);
}
bool row_maximum_bfloat16(const RowMaximumCall* call, Parallel parallel, Threads threads,
                          int64_t count) {
  return row_maximum<BFloats>(*call, parallel, threads, count);
}
#endif
#ifdef INT8_PRODUCTS
bool linear_int8(const LinearCall* call, Parallel parallel, Threads threads, int64_t count) {
  return linear<Int8>(*call, parallel, threads, count);
}
bool row_maximum_int8(const RowMaximumCall* call, Parallel parallel, Threads threads,
                      int64_t count) {
  return row_maximum<Int8>(*call, parallel, threads, count);
}
#endif
}
