// The structs that describe an encoder's layers, and the working memory of a forward pass.

#pragma once

#include <type_traits>

#include "attention.h"
#include "pool.h"
#include "rotation.h"

namespace {

// Norms of a part of a layer, x = sum(x + exit(part(entry(x)))); null if the model lacks one.
struct Norms {
  Norm entry, exit, sum;
};

struct Layer {
  Matrix qkv, output, up, down;  // a gated up alternates panels of gate and up
  Norm query_norm, key_norm;     // of each head, or null
  Norms attention, ffn;
  int64_t rotation;  // index into the call's rotations
  int64_t reach;     // tokens visible on each side
};

enum class Arrangement : int64_t { post, pre, sandwich };

struct Shape {
  int64_t width, heads, kv_heads, size, inner;  // D, H, key heads, Dh, feed-forward width
  Arrangement arrangement;
  Activation activation;
  int64_t gated, causal;
  double scale;  // of the scores
  double eps;

  long mixed() const { return heads * size; }                  // width of the attention's output
  long stride() const { return (heads + 2 * kv_heads) * size; }  // queries, keys and values
};

struct Call {
  const Shape* shape;
  const Layer* layers;
  int64_t count;     // of layers to compute
  const Norm* last;  // of the states after them
  const Tables* tables;
  Bias bias;
  const Rotation* rotations;
  const int64_t* places;   // (T,) each token's row in the tables of the rotations
  const int64_t* ids;      // (T,)
  const int64_t* lengths;  // (B,)
  int64_t sequences;       // B
  float* states;           // (T, D), or null if not wanted
  const Pooling* poolings;
  int64_t pooled;  // how many poolings
  float* vectors;  // (B, pooled * D)

  // Whether only one row of each sequence's last states is needed.
  bool single() const {
    const bool ends = pooled && (poolings[0] == Pooling::cls || poolings[0] == Pooling::last);
    return ends && !states && std::all_of(poolings, poolings + pooled, [&](Pooling other) {
             return other == poolings[0];
           });
  }
  // The index of that row.
  Range pooled_row(long sequence) const {
    const long row = poolings[0] == Pooling::cls ? 0 : std::max<long>(lengths[sequence] - 1, 0);
    return {row, row + 1};
  }
};

// How a precision computes attention, and where it puts what is not quantised yet.
template <typename Kind>
struct Parts {
  using Attention = Kind;
  using Stage = typename Kind::Operand;
};
#ifdef __AMX_TILE__
template <>
struct Parts<SplitFloat32> {
  using Attention = Float32;
  using Stage = float;
};
#endif
#ifdef __AVX512VNNI__
template <>
struct Parts<Int8> {
#ifdef __AVX512BF16__
  using Attention = BFloats;
#else
  using Attention = Float32;
#endif
  using Stage = float;
};
#endif

// The working memory of a team of threads.
template <typename Kind>
struct Space {
  using Value = typename Parts<Kind>::Attention::Operand;
  float* x;
  float* given;       // sums up a part's output: x, unless a norm comes first
  Rows<Kind> narrow;  // operands D wide
  Value* qkv;
  typename Parts<Kind>::Stage* stage;  // values before they become wide operands
  Rows<Kind> wide;                     // operands up to the feed-forward network's width

  Space(Arena& arena, const Shape& shape, long tokens, bool layers) {
    const long rows = layers ? tokens + SLACK : 0, widest = std::max<long>(shape.mixed(), shape.inner);
    const bool post = shape.arrangement == Arrangement::post;
    const bool sandwich = shape.arrangement == Arrangement::sandwich;
    x = arena.take<float>((tokens + SLACK) * shape.width);
    given = sandwich ? arena.take<float>(rows * shape.width) : x;
    narrow = post ? take(arena, rows, shape.width, x) : take<void>(arena, rows, shape.width);
    qkv = arena.take<Value>(rows * shape.stride());
    stage = arena.take<typename Parts<Kind>::Stage>(rows * widest);
    wide = take(arena, rows, widest, stage);
  }

 private:
  // Numbers of the operand type are used in place.
  template <typename Number>
  static Rows<Kind> take(Arena& arena, long rows, long width, Number* numbers = nullptr) {
    using Operand = typename Kind::Operand;
    if constexpr (std::is_same_v<Number, Operand>)
      return {numbers, nullptr, nullptr};
    else
      return {arena.take<Operand>(rows * width), arena.take<float>(rows),
              arena.take<int32_t>(rows)};
  }
};

// The working memory of one thread.
template <typename Kind>
struct Desk {
  using Attention = typename Parts<Kind>::Attention;
  Head<Attention> head;
  float* row;    // (D,)
  float* aside;  // (tokens, 16 or Dh) results that wait for the rest of their rows

  Desk(Arena& arena, const Shape& shape, long tokens, long longest, bool layers)
      : head(arena, layers ? longest : 0, shape.size),
        row(arena.take<float>(shape.width)),
        aside(arena.take<float>((layers ? tokens : 0) * std::max<long>(PANEL, shape.size))) {}
};

}  // namespace
