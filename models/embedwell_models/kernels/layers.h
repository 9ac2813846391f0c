// The structs that describe an encoder's layers and a call.

#pragma once

#include <algorithm>

#include "convolution.h"
#include "delta.h"
#include "experts.h"
#include "pool.h"
#include "relative.h"

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

// Rotation of queries and keys by their positions (Su et al. 2021, arXiv 2104.09864). Features 2i
// and 2i + 1 of a head are a pair: the columns of the products are packed in this order, whatever
// order the model has. Scores do not depend on the order of features.
struct Rotation {
  const float *cos, *sin;  // (positions, Dh), negated sine for a pair's first feature; or null

  explicit operator bool() const { return cos; }
  INLINE Floats turn(Floats x, long index) const {  // index: position * Dh + feature
    const Floats other = exchange<1>(x);
    return fma(x, load(cos + index), other * load(sin + index));
  }
};

struct Layer {
  Matrix qkv;               // of attention, or the input of another mixer
  Matrix output, up, down;  // a gated up alternates panels of gate and up
  Convolution convolution;  // in place of attention, or none
  DeltaNet delta_net;       // the same
  Experts experts;          // in place of up and down, or none
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
  const int64_t* positions;   // (T,) each token's row in the tables of the rotations
  const int64_t* token_ids;   // (T,)
  const int64_t* lengths;     // (B,)
  const int64_t* key_counts;  // (B,) first rows of a sequence that are attended to, or null
  int64_t num_sequences;      // B
  float* states;              // (T, D), or null if not wanted
  const Pooling* poolings;
  int64_t num_poolings;
  float* vectors;  // (B, num_poolings * D)

  // Number of a sequence's rows that all its rows attend to.
  long key_count(long sequence) const {
    return key_counts ? key_counts[sequence] : lengths[sequence];
  }
  // Whether only one row of each sequence's last states is needed.
  bool pools_one_row() const {
    const bool ends =
        num_poolings && (poolings[0] == Pooling::cls || poolings[0] == Pooling::lasttoken);
    return ends && !states && std::all_of(poolings, poolings + num_poolings, [&](Pooling other) {
             return other == poolings[0];
           });
  }
  // The index of that row.
  Range pooled_row(long sequence) const {
    const long row = poolings[0] == Pooling::cls ? 0 : std::max<long>(lengths[sequence] - 1, 0);
    return {row, row + 1};
  }
  // The rows of a sequence that a layer computes: all, or the pooled one.
  Range wanted_rows(long sequence, bool single) const {
    return single ? pooled_row(sequence) : Range{0, lengths[sequence]};
  }
};

}  // namespace
