// The working memory of a forward pass: of a team of threads, and of each thread.

#pragma once

#include <type_traits>

#include "layers.h"
#include "portions.h"

namespace {

// How the products of a precision are mixed with others: the precision of attention, and the type
// of values that are not yet operands.
template <typename Kind>
struct Precision {
  using Attention = Kind;
  using Stage = typename Kind::Operand;
};
#ifdef __AMX_TILE__
template <>
struct Precision<SplitFloat32> {
  using Attention = Float32;
  using Stage = float;
};
#endif
template <>
struct Precision<Int8> {
#ifdef BFLOAT16_PRODUCTS
  using Attention = BFloats;
#else
  using Attention = Float32;
#endif
  using Stage = float;
};

// Operands of rows; numbers of their type are used in place.
template <typename Kind, typename Number>
Rows<Kind> take_rows(Arena& arena, long rows, long width, Number* numbers = nullptr) {
  using Operand = typename Kind::Operand;
  if constexpr (std::is_same_v<Number, Operand>)
    return {numbers, nullptr, nullptr};
  else
    return {arena.take<Operand>(rows * width), arena.take<float>(rows), arena.take<int32_t>(rows)};
}

// How a part is computed: its tokens, its sequences, the longest of them, the threads that share
// it, and whether each of them computes rows of its own.
struct PartShape {
  long tokens, sequences, longest, threads;
  bool layers, by_rows;

  // Rows of the stage that a thread has for rows of its own.
  long own_rows() const {
    return layers && by_rows && threads > 1 ? std::min(tokens / threads + 1, BLOCK) + SLACK : 0;
  }
  // Rows of the stage of all threads that may be as wide as the feed-forward network. Where threads
  // have rows of their own, the last layer may still compute one row of each sequence together.
  long wide_rows() const {
    if (!layers) return 0;
    const long block = threads > 1 ? 0 : std::min(tokens, BLOCK);
    return (by_rows ? std::max(sequences, block) : tokens) + SLACK;
  }
};

// The working memory of a team of threads.
template <typename Kind>
struct TeamMemory {
  using Value = typename Precision<Kind>::Attention::Operand;
  float* x;
  float* output_sum;  // sum of a part's output: x, unless a norm comes first
  Rows<Kind> narrow;  // operands of width D
  Value* qkv;
  typename Precision<Kind>::Stage* stage;  // values before they become wide operands
  Rows<Kind> wide;                         // operands of products that all threads share
  float* inputs;                           // input of the first layer, for input gates
  float* features;                         // (tokens, P)
  float* shares;                           // (tokens, experts)
  Place* places;                           // (tokens * top,) rows by expert
  int32_t* ends;                           // (experts,) of their places
  Rows<Kind> routed;                       // operands of the places, of width D

  TeamMemory(Arena& arena, const KernelConfig& config, const PartShape& shape) {
    const long rows = shape.layers ? shape.tokens + SLACK : 0;
    const long convolved = config.convolves ? 3 * config.hidden_size : 0;
    const long mixed =
        std::max({config.heads.qkv_width(), convolved, config.delta_heads.row_width()});
    // Experts collect rows of all threads.
    const long wide_rows = config.experts ? rows : shape.wide_rows();
    x = arena.take<float>((shape.tokens + SLACK) * config.hidden_size);
    output_sum = keeps_input(config.arrangement) ? arena.take<float>(rows * config.hidden_size) : x;
    narrow = reads_sums(config.arrangement)
                 ? take_rows<Kind>(arena, rows, config.hidden_size, x)
                 : take_rows<Kind, void>(arena, rows, config.hidden_size);
    qkv = arena.take<Value>(rows * mixed);
    const long numbers = std::max(rows * config.results(), wide_rows * config.widest());
    stage = arena.take<typename Precision<Kind>::Stage>(numbers);
    wide = take_rows<Kind>(arena, wide_rows, config.widest_operands<Kind>(), stage);
    inputs = arena.take<float>(config.gate_size ? rows * config.hidden_size : 0);
    features = arena.take<float>(rows * config.gate_size);
    shares = arena.take<float>(rows * config.experts);
    places = arena.take<Place>(rows * config.top);
    ends = arena.take<int32_t>(config.experts);
    routed = take_rows<Kind, void>(arena, rows * config.top, config.hidden_size);
  }
};

// The working memory of one thread.
template <typename Kind>
struct ThreadMemory {
  using Attention = typename Precision<Kind>::Attention;
  Head<Attention> head;
  RelativeMemory relative;
  DeltaMemory delta;
  float* row;                              // (D,)
  float* logits;                           // (experts,)
  float* aside;                            // (BLOCK, 16 or Dh) results of incomplete rows
  typename Precision<Kind>::Stage* stage;  // as in TeamMemory, for a block of the thread's own rows
  Rows<Kind> wide;

  ThreadMemory(Arena& arena, const KernelConfig& config, const PartShape& shape)
      : head(arena, shape.layers ? shape.longest : 0, config.heads.size),
        relative(arena, shape.layers ? shape.longest : 0, config.buckets),
        delta(arena, config.delta_heads),
        row(arena.take<float>(config.hidden_size)),
        logits(arena.take<float>(config.experts)) {
    const long rows = shape.layers ? std::min(shape.tokens, BLOCK) + SLACK : 0;
    const long own = shape.own_rows();
    aside = arena.take<float>(rows * std::max<long>(PANEL, config.heads.size));
    stage = arena.take<typename Precision<Kind>::Stage>(own * config.widest());
    wide = take_rows<Kind>(arena, own, config.widest_operands<Kind>(), stage);
  }
};

}  // namespace
