// The structs that describe an encoder's layers, and the working memory of a forward pass.

#pragma once

#include <type_traits>

#include "convolution.h"
#include "delta.h"
#include "experts.h"
#include "pool.h"
#include "portions.h"
#include "relative.h"
#include "rotation.h"
#include "softcap.h"

namespace {

// Norms of a part of a layer, x = sum(x + output(part(input(x)))); a norm that the model lacks is
// null.
struct PartNorms {
  Norm input, output, sum;
};

// A third part of a layer: a bottleneck of x, times normalised features of the token vectors.
// Matrices are null if there is no gate.
struct InputGate {
  Matrix features, down, up;
  Norm features_norm;
  PartNorms norms;
  double scale;  // factor of the layer's result
};

// Heads of a layer's attention.
struct Heads {
  int64_t count, kv_count, size;  // H, key heads, Dh
  int64_t gated;                  // whether gates of the results follow the values

  long width() const { return count * size; }       // of the attention's output
  long shared() const { return count / kv_count; }  // heads that share a head of keys
  long qkv_width() const { return (count * (gated ? 2 : 1) + 2 * kv_count) * size; }
};

struct Layer {
  Matrix qkv;                // of attention, or the input of another mixer
  Matrix output, up, down;   // a gated up alternates panels of gate and up
  Convolution convolution;   // in place of attention, or none
  DeltaNet delta_net;        // the same
  Experts experts;           // in place of up and down, or none
  Heads heads;
  Norm query_norm, key_norm, value_norm;  // norms of each head, or null
  PartNorms attention_norms, ffn_norms;
  Norm inner_norm;  // of the features that down reads, or null
  Norm mixed_norm;  // of the results of all heads that output reads, or null
  RelativeTables relative;
  InputGate gate;
  int64_t rotation_index;  // into the call's rotations
  int64_t window;          // tokens visible on each side
  int64_t first_bias;      // row of the first head in the call's biases
};

enum class Arrangement : int64_t { post, pre, sandwich, double_post, parallel, parallel_one_norm };

// Whether both parts of a layer read the layer's input.
inline bool in_parallel(Arrangement arrangement) {
  return arrangement == Arrangement::parallel || arrangement == Arrangement::parallel_one_norm;
}
// Whether a part reads the rows as they are, not normalised.
inline bool reads_sums(Arrangement arrangement) {
  return arrangement == Arrangement::post || arrangement == Arrangement::double_post;
}
// Whether the output of a part is kept apart from the rows, which are still needed.
inline bool keeps_input(Arrangement arrangement) {
  return arrangement != Arrangement::post && arrangement != Arrangement::pre;
}

// The values of EncoderConfig that the kernels read.
struct KernelConfig {
  int64_t hidden_size;        // D
  Heads heads;                // the maximum of all layers
  DeltaHeads delta_heads;     // of the layers that have them; zeros without such a layer
  int64_t intermediate_size;  // of the feed-forward network
  int64_t gate_size;          // P, features of an input gate; 0 without one
  int64_t experts, top;       // the maximum of all layers; 0 without experts
  int64_t buckets;            // of the relative tables, a multiple of COLUMNS; 0 without them
  int64_t convolves;          // whether a layer has a convolution
  Arrangement arrangement;
  Activation activation;
  int64_t gated, causal;
  double scale;    // of the scores
  double softcap;  // limit of the scores, or 0
  double norm_eps, inner_norm_eps;

  // The widest results of attention or of another mixer.
  long results() const {
    return std::max<long>({heads.width(), convolves ? hidden_size : 0, delta_heads.width()});
  }
  // The widest operands of a product.
  long widest() const { return std::max<long>({results(), intermediate_size, gate_size}); }
  // The same in operands of a precision: in int8, the results of attention may have two bytes.
  template <typename Kind>
  long widest_operands() const {
    return std::is_same_v<Kind, Int8> ? std::max(widest(), 2 * results()) : widest();
  }
};

struct ForwardCall {
  const KernelConfig* config;
  const Layer* layers;
  int64_t num_layers;      // to compute
  const Norm* final_norm;  // of the states after them
  const EmbeddingTables* embedding_tables;
  PositionBias position_bias;
  Distances distances;
  const Rotation* rotations;
  const int64_t* positions;  // (T,) each token's row in the tables of the rotations
  const int64_t* token_ids;  // (T,)
  const int64_t* lengths;    // (B,)
  const int64_t* key_counts;  // (B,) first rows of a sequence that are attended to, or null
  int64_t num_sequences;     // B
  float* states;             // (T, D), or null if not wanted
  const Pooling* poolings;
  int64_t num_poolings;
  float* vectors;  // (B, num_poolings * D)

  // Number of a sequence's rows that all its rows attend to.
  long key_count(long sequence) const {
    return key_counts ? key_counts[sequence] : lengths[sequence];
  }
  // Whether only one row of each sequence's last states is needed.
  bool pools_one_row() const {
    const bool ends = num_poolings && (poolings[0] == Pooling::cls || poolings[0] == Pooling::lasttoken);
    return ends && !states && std::all_of(poolings, poolings + num_poolings, [&](Pooling other) {
             return other == poolings[0];
           });
  }
  // The index of that row.
  Range pooled_row(long sequence) const {
    const long row = poolings[0] == Pooling::cls ? 0 : std::max<long>(lengths[sequence] - 1, 0);
    return {row, row + 1};
  }
};

// The attention of a precision, and its memory for values that are not yet quantised.
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
template <>
struct Parts<Int8> {
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
struct Extent {
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
struct Space {
  using Value = typename Parts<Kind>::Attention::Operand;
  float* x;
  float* output_sum;  // sum of a part's output: x, unless a norm comes first
  Rows<Kind> narrow;  // operands of width D
  Value* qkv;
  typename Parts<Kind>::Stage* stage;  // values before they become wide operands
  Rows<Kind> wide;                     // operands of products that all threads share
  float* inputs;                       // input of the first layer, for input gates
  float* features;                     // (tokens, P)
  float* shares;                       // (tokens, experts)
  Place* places;                       // (tokens * top,) rows by expert
  int32_t* ends;                       // (experts,) of their places
  Rows<Kind> routed;                   // operands of the places, of width D

  Space(Arena& arena, const KernelConfig& config, const Extent& extent) {
    const long rows = extent.layers ? extent.tokens + SLACK : 0;
    const long convolved = config.convolves ? 3 * config.hidden_size : 0;
    const long mixed =
        std::max({config.heads.qkv_width(), convolved, config.delta_heads.row_width()});
    // Experts collect rows of all threads.
    const long wide_rows = config.experts ? rows : extent.wide_rows();
    x = arena.take<float>((extent.tokens + SLACK) * config.hidden_size);
    output_sum = keeps_input(config.arrangement) ? arena.take<float>(rows * config.hidden_size) : x;
    narrow = reads_sums(config.arrangement)
                 ? take_rows<Kind>(arena, rows, config.hidden_size, x)
                 : take_rows<Kind, void>(arena, rows, config.hidden_size);
    qkv = arena.take<Value>(rows * mixed);
    const long numbers = std::max(rows * config.results(), wide_rows * config.widest());
    stage = arena.take<typename Parts<Kind>::Stage>(numbers);
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
struct Desk {
  using Attention = typename Parts<Kind>::Attention;
  Head<Attention> head;
  RelativeSpace relative;
  DeltaSpace delta;
  float* row;     // (D,)
  float* logits;  // (experts,)
  float* aside;   // (BLOCK, 16 or Dh) results of incomplete rows
  typename Parts<Kind>::Stage* stage;  // as in Space, for a block of the thread's own rows
  Rows<Kind> wide;

  Desk(Arena& arena, const KernelConfig& config, const Extent& extent)
      : head(arena, extent.layers ? extent.longest : 0, config.heads.size),
        relative(arena, extent.layers ? extent.longest : 0, config.buckets),
        delta(arena, config.delta_heads),
        row(arena.take<float>(config.hidden_size)),
        logits(arena.take<float>(config.experts)) {
    const long rows = extent.layers ? std::min(extent.tokens, BLOCK) + SLACK : 0;
    const long own = extent.own_rows();
    aside = arena.take<float>(rows * std::max<long>(PANEL, config.heads.size));
    stage = arena.take<typename Parts<Kind>::Stage>(own * config.widest());
    wide = take_rows<Kind>(arena, own, config.widest_operands<Kind>(), stage);
  }
};

}  // namespace
