// The work of one thread of a team on a part of a call.

#pragma once

#include "plan.h"

namespace {

template <typename Kind>
class Work {
 public:
  Work(const Call& call, const Part& part, const Space<Kind>& space, const Desk<Kind>& desk,
       Member me)
      : call_(call),
        shape_(*call.shape),
        part_(part),
        space_(space),
        desk_(desk),
        me_(me),
        rows_(part.tokens) {}

  void run() {
    embed_rows();
    read_rows(reader(0));
    me_.wait();
    for (long i = 0; i < call_.count; i++) {
      const Layer& layer = call_.layers[i];
      mix(layer, i + 1 == call_.count && call_.single());
      settle_rows(layer.attention, {&layer.ffn.entry, &layer.up});
      feed_forward(layer);
      settle_rows(layer.ffn, reader(i + 1));
    }
    if (call_.states) copy_rows();
    pool_sequences();
  }

 private:
  static constexpr long BLOCK = 256;  // rows of the feed-forward network that fit a core's cache

  // Who reads the rows next: through which norm, and for which product.
  struct Reader {
    const Norm* norm;
    const Matrix* matrix;  // null for the last states
  };

  Reader reader(long index) const {
    if (index == call_.count) return {call_.last, nullptr};
    return {&call_.layers[index].attention.entry, &call_.layers[index].qkv};
  }

  // Single: of each sequence only the row of the token goes on that is pooled.
  void mix(const Layer& layer, bool single) {
    project(layer);
    const long stride = shape_.stride(), size = shape_.size, width = shape_.mixed();
    const long shared = shape_.heads / shape_.kv_heads;
    const auto [first, last] = me_.share(shape_.heads);
    const auto* queries = space_.qkv;
    auto* out = space_.stage;
    for (long i = part_.first; i < part_.last; i++) {
      const long length = call_.lengths[i];
      const Sight sight{length, layer.reach, shape_.causal != 0};
      const Range wanted = single ? call_.pooled_row(i) : Range{0, length};
      const auto* keys = queries + width;
      const auto* values = keys + shape_.kv_heads * size;
      for (long head = first; head < last; head++) {
        const long key = head / shared * size;
        if (head == first || head % shared == 0)
          desk_.head.pack(keys + key, values + key, stride, length);
        attend(queries + head * size, stride, wanted, sight, head, call_.bias,
               static_cast<float>(shape_.scale), desk_.head, [&](long row, long d, Floats y) {
                 store(out + (row - wanted.first) * width + head * size + d, y);
               });
      }
      queries += length * stride;
      out += (wanted.last - wanted.first) * width;
    }
    me_.wait();
    if (single) keep_pooled();
    stage_rows(layer.output, 0, rows_, width);
    add(layer.output, 0, rows_, width);
  }

  void keep_pooled() {
    if (me_.rank == 0) {
      const long width = shape_.width;
      const float* rows = space_.x;
      for (long i = part_.first; i < part_.last; rows += call_.lengths[i++] * width)
        std::memmove(space_.x + (i - part_.first) * width, rows + call_.pooled_row(i).first * width,
                     width * sizeof(float));
    }
    rows_ = part_.last - part_.first;
    me_.wait();
  }

  // Queries, keys and values of some heads.
  void project(const Layer& layer) {
    const long before = shape_.heads + shape_.kv_heads;
    const auto queries = me_.share(shape_.heads), keys = me_.share(shape_.kv_heads);
    place(layer, layer.query_norm, queries);
    place(layer, layer.key_norm, {shape_.heads + keys.first, shape_.heads + keys.last});
    write(layer.qkv, {before + keys.first, before + keys.last});
    if (shape_.kv_heads < shape_.heads) me_.wait();  // keys may be another thread's
  }

  void write(const Matrix& qkv, Range heads) {
    const long stride = shape_.stride();
    auto* out = space_.qkv;
    product(qkv, space_.narrow, 0, part_.tokens, shape_.width, of(heads),
            [&](long row, long column, Floats y) { store(out + row * stride + column, y); });
  }

  // Normalises and rotates heads of queries or keys, if the model does.
  void place(const Layer& layer, const Norm& norm, Range heads) {
    const Rotation& rotation = call_.rotations[layer.rotation];
    if (norm) return place_normalised(layer, norm, heads);
    if (!rotation) return write(layer.qkv, heads);
    const auto size = static_cast<uint32_t>(shape_.size);
    const long stride = shape_.stride();
    const int64_t* places = call_.places + part_.offset;
    auto* out = space_.qkv;
    product(layer.qkv, space_.narrow, 0, part_.tokens, shape_.width, of(heads),
            [&](long row, long column, Floats y) {
              const long feature = static_cast<uint32_t>(column) % size;
              store(out + row * stride + column,
                    rotation.turn(y, places[row] * size + feature));
            });
  }

  void place_normalised(const Layer& layer, const Norm& norm, Range heads) {
    const Rotation& rotation = call_.rotations[layer.rotation];
    const long size = shape_.size;
    float* aside = desk_.aside;
    for (long head = heads.first; head < heads.last; head++) {
      const long before = head * size;
      product(layer.qkv, space_.narrow, 0, part_.tokens, shape_.width, of({head, head + 1}),
              [&](long row, long column, Floats y) {
                store(aside + row * size + column - before, y);
              });
      for (long row = 0; row < part_.tokens; row++) {
        float* x = aside + row * size;
        normalise(x, size, norm, eps(), x);
        const long place = rotation ? call_.places[part_.offset + row] * size : 0;
        auto* out = space_.qkv + row * shape_.stride() + before;
        for (long d = 0; d < size; d += W)
          store(out + d, rotation ? rotation.turn(load(x + d), place + d) : load(x + d));
      }
    }
  }

  void feed_forward(const Layer& layer) {
    const long block = me_.size == 1 ? BLOCK : rows_, inner = shape_.inner;
    for (long row = 0; row < rows_; row += block) {
      const long rows = std::min(rows_ - row, block);
      if (shape_.gated)
        gate_rows(layer.up, row, rows);
      else
        activate_rows(layer.up, row, rows);
      me_.wait();
      stage_rows(layer.down, 0, rows, inner);
      add(layer.down, row, rows, inner);
    }
  }

  void activate_rows(const Matrix& up, long row, long rows) {
    const long inner = shape_.inner;
    auto* out = space_.stage;
    product(up, space_.narrow, row, rows, shape_.width, columns(inner),
            [&](long r, long column, Floats y) APART {
              store(out + r * inner + column, activated(y));
            });
  }

  // A panel of gates waits for the panel of up after it (GLU, Shazeer 2020, arXiv 2002.05202).
  void gate_rows(const Matrix& up, long row, long rows) {
    const long inner = shape_.inner;
    float* gates = desk_.aside;
    auto* out = space_.stage;
    product(up, space_.narrow, row, rows, shape_.width, columns(2 * inner),
            [&](long r, long column, Floats y) APART {
              float* gate = gates + r * PANEL + column % PANEL;
              if (column / PANEL % 2 == 0) return store(gate, activated(y));
              const long place = column / (2 * PANEL) * PANEL + column % PANEL;
              store(out + r * inner + place, load(gate) * y);
            });
  }

  INLINE Floats activated(Floats y) const { return activate<Kind::exact>(y, shape_.activation); }

  // What is given += a product of wide operands, which begin with those of `row`.
  void add(const Matrix& matrix, long row, long rows, long depth) {
    float* given = space_.given + row * shape_.width;
    product(matrix, space_.wide, 0, rows, depth, columns(shape_.width),
            [&](long r, long column, Floats y) {
              float* sum = given + r * shape_.width + column;
              store(sum, load(sum) + y);
            });
    me_.wait();
  }

  template <typename Done>
  INLINE void product(const Matrix& matrix, const Rows<Kind>& from, long row, long rows, long depth,
                      Range columns, Done&& done) {
    multiply(from.data + row * depth, depth, rows, matrix.read<Kind>(depth), depth, columns,
             [&](long r, long column, typename Kind::Sums sums) {
               done(r, column, finish(sums, matrix, from, row + r, column));
             });
  }

  Range columns(long count) const {
    const auto [first, last] = me_.share(count / COLUMNS);
    return {first * COLUMNS, last * COLUMNS};
  }
  Range of(Range heads) const { return {heads.first * shape_.size, heads.last * shape_.size}; }
  float eps() const { return static_cast<float>(shape_.eps); }

  void embed_rows() {
    const long width = shape_.width;
    const auto [first, last] = me_.share(part_.tokens);
    const int64_t* ids = call_.ids + part_.offset;
    const Tables& tables = *call_.tables;
    long row = 0;
    for (long i = part_.first; i < part_.last; i++) {
      const long end = std::min<long>(last, row + call_.lengths[i]);
      long next = tables.padding < 0 ? 0 : 1;
      for (; row < end; row++) {
        const long place = ids[row] == tables.padding ? 0 : next++;
        if (row >= first) embed(tables, ids[row], place, width, eps(), space_.x + row * width);
      }
    }
    if (space_.given != space_.x)
      std::memset(space_.given + first * width, 0, (last - first) * width * sizeof(float));
  }

  void copy_rows() {
    const long width = shape_.width;
    const auto [first, last] = me_.share(part_.tokens);
    std::memcpy(call_.states + (part_.offset + first) * width, space_.x + first * width,
                (last - first) * width * sizeof(float));
  }

  void pool_sequences() {
    const long width = shape_.width;
    const auto [first, last] = me_.share(part_.last - part_.first);
    const float* rows = space_.x;
    for (long i = part_.first; i < part_.last; rows += kept(call_.lengths[i++]) * width) {
      if (i - part_.first < first || i - part_.first >= last) continue;
      for (long j = 0; j < call_.pooled; j++)
        pool(rows, kept(call_.lengths[i]), width, call_.poolings[j],
             call_.vectors + (i * call_.pooled + j) * width);
    }
  }

  // How many rows of a sequence remain.
  long kept(long length) const { return rows_ == part_.tokens ? length : 1; }

  void settle_rows(const Norms& norms, Reader next) {
    const long width = shape_.width;
    const auto [first, last] = me_.share(rows_);
    for (long row = first; row < last; row++) {
      float *x = space_.x + row * width, *given = space_.given + row * width;
      if (given != x) add_row(norms.exit, given, x);
      normalise(x, width, norms.sum, eps(), x);
      read_row(next, row);
    }
    me_.wait();
  }

  // Clears the memory for the next part's output.
  void add_row(const Norm& norm, float* given, float* x) {
    normalise(given, shape_.width, norm, eps(), given);
    for (long d = 0; d < shape_.width; d += W) {
      store(x + d, load(x + d) + load(given + d));
      store(given + d, Floats{});
    }
  }

  void read_rows(Reader reader) {
    const auto [first, last] = me_.share(part_.tokens);
    for (long row = first; row < last; row++) read_row(reader, row);
  }

  INLINE void read_row(Reader reader, long row) {
    float* x = space_.x + row * shape_.width;
    const bool apart = reader.matrix && shape_.arrangement != Arrangement::post;
    float* read = apart ? aside(row) : x;
    normalise(x, shape_.width, *reader.norm, eps(), read);
    if (reader.matrix) prepare(read, shape_.width, *reader.matrix, space_.narrow, row);
  }

  // Where a row is normalised that x keeps as it is: with the operands, if those are floats.
  float* aside(long row) const {
    if constexpr (std::is_same_v<typename Kind::Operand, float>)
      return space_.narrow.data + row * shape_.width;
    else
      return desk_.row;
  }

  void stage_rows(const Matrix& reader, long first, long count, long width) {
    if constexpr (!std::is_same_v<typename Parts<Kind>::Stage, typename Kind::Operand>) {
      const auto [from, to] = me_.share(count);
      for (long row = first + from; row < first + to; row++)
        prepare(space_.stage + row * width, width, reader, space_.wide, row);
      me_.wait();
    }
  }

  const Call& call_;
  const Shape& shape_;
  const Part& part_;
  const Space<Kind>& space_;
  const Desk<Kind>& desk_;
  Member me_;
  long rows_;  // of x: a token's each, or at last a sequence's
};

}  // namespace
