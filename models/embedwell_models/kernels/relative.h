// Scores between the content of one token and its distance to another, which are added to the
// scores between contents (DeBERTa, He et al. 2020, arXiv 2006.03654).

#pragma once

#include "attention.h"

// The trained vectors of a layer by bucket: (H, buckets, Dh), each head in panels of the operands
// of attention. A table is null if the model lacks its scores.
struct RelativeTables {
  const void* keys;     // that queries are multiplied with, by the bucket of key minus query
  const void* queries;  // that keys are multiplied with, by the bucket of query minus key

  explicit operator bool() const { return keys || queries; }
};

// The buckets of distances, which do not decrease.
struct Distances {
  const int32_t* buckets;  // of distance 0; COLUMNS more than the longest text on each side

  // The columns of a product with a table that hold some distances.
  Range columns(long first, long last) const {
    return {buckets[first] / COLUMNS * COLUMNS, round_up(buckets[last] + 1, COLUMNS)};
  }
  // The scores of W distances, out of a row of scores by bucket.
  INLINE Floats pick(const float* row, long distance) const {
    return gather(row, load_ints(buckets + distance));
  }
};

// Working memory of one thread for these scores.
struct RelativeMemory {
  static constexpr long QUERIES = 8 * TILE_ROWS;  // that share the scores of keys
  static constexpr long KEYS = 32;                // that are multiplied together
  float* products;                                // (KEYS, buckets)
  float* of_keys;                                 // (QUERIES, columns) of a block of keys

  RelativeMemory(Arena& arena, long length, long buckets)
      : products(arena.take<float>(KEYS * buckets)),
        of_keys(arena.take<float>(buckets ? QUERIES * round_up(std::min(length, PACKED), COLUMNS)
                                          : 0)) {}
};

// The scores of one head within one sequence.
template <typename Kind>
class Relation {
 public:
  using Value = typename Kind::Operand;

  Relation(const RelativeTables& tables, long head, long size, long buckets,
           const Distances& distances, const RelativeMemory& space)
      : by_query_(static_cast<const Value*>(tables.keys) + head * buckets * size),
        by_key_(static_cast<const Value*>(tables.queries) + head * buckets * size),
        tables_(tables),
        size_(size),
        buckets_(buckets),
        distances_(distances),
        space_(space) {}

  // Multiplies a block of keys with the distances of up to QUERIES queries, before these are added.
  APART void score_keys(const Value* keys, long stride, Range queries, Range block) {
    first_ = queries.first, first_key_ = block.first;
    columns_ = round_up(block.last - block.first, COLUMNS);
    if (!tables_.queries) return;
    const long last = first_ + round_up(queries.last - first_, W) - 1;
    for (long key = block.first; key < block.last; key += space_.KEYS) {
      const long count = std::min(block.last - key, space_.KEYS);
      score(keys + key * stride, stride, count, by_key_,
            distances_.columns(first_ - (key + count - 1), last - key));
      for (long j = 0; j < count; j += W)
        for (long query = first_; query < queries.last; query += W)
          place(key, j, count, query, std::min(queries.last - query, W));
    }
  }

  // Adds the scores to a block of rows of unscaled scores, for a range of keys.
  APART void add(const Value* queries, long stride, long first, long rows, Range keys,
                 float* scores) const {
    const long last = first + rows - 1, width = keys.last - keys.first;
    if (tables_.keys)
      score(queries + first * stride, stride, rows, by_query_,
            distances_.columns(keys.first - last, keys.last - 1 - first));
    for (long r = 0; r < rows; r++) {
      float* row = scores + r * width - keys.first;
      const float* products = space_.products + r * buckets_;
      const float* of_keys = space_.of_keys + (first + r - first_) * columns_ - first_key_;
      for (long j = keys.first; j < keys.last; j += W) {
        Floats x = load(row + j);
        if (tables_.keys) x += distances_.pick(products, j - first - r);
        if (tables_.queries) x += load(of_keys + j);
        store(row + j, x);
      }
    }
  }

 private:
  INLINE void score(const Value* rows, long stride, long count, const Value* table,
                    Range columns) const {
    multiply(rows, stride, count, Panels<Kind>{table, size_}, size_, columns,
             [&](long r, long c, Floats x) { store(space_.products + r * buckets_ + c, x); });
  }

  // Transposes the scores of W keys with W queries, of which `rows` are wanted.
  INLINE void place(long key, long j, long count, long query, long rows) const {
    Ints block[W];
#pragma GCC unroll 16
    for (long i = 0; i < W; i++) {
      const float* products = space_.products + (j + i) * buckets_;
      block[i] = j + i < count ? (Ints)distances_.pick(products, query - (key + j + i)) : Ints{};
    }
    transpose(block);
    float* out = space_.of_keys + (query - first_) * columns_ + key + j - first_key_;
    for (long i = 0; i < rows; i++) store(out + i * columns_, (Floats)block[i]);
  }

  const Value *by_query_, *by_key_;
  const RelativeTables& tables_;
  const long size_, buckets_;
  const Distances& distances_;
  const RelativeMemory& space_;
  long first_ = 0, first_key_ = 0;  // of the first row and column of of_keys
  long columns_ = 0;
};
