// The work of one thread of a team on a part of a call.

#pragma once

#include "plan.h"

namespace {

template <typename Kind>
class Work {
 public:
  Work(const ForwardCall& call, const Part& part, const Space<Kind>& space, const Desk<Kind>& desk,
       Member me)
      : call_(call),
        config_(*call.config),
        part_(part),
        space_(space),
        desk_(desk),
        me_(me),
        rows_(part.tokens) {}

  void run() {
    embed_rows();
    read_rows(reader(0), space_.x);
    for (long i = 0; i < call_.num_layers; i++) {
      const Layer& layer = call_.layers[i];
      mix(layer, i + 1 == call_.num_layers && call_.pools_one_row());
      settle_mixed(layer);
      if (layer.experts.count)
        mix_experts(layer.experts);
      else
        feed_forward(layer);
      if (config_.gate_size) {
        featurise(layer.gate);
        settle_rows(layer.ffn_norms, {&layer.gate.norms.input, &layer.gate.down});
        multiply_gate(layer.gate);
        settle_rows(layer.gate.norms, reader(i + 1), static_cast<float>(layer.gate.scale));
      } else {
        settle_rows(layer.ffn_norms, reader(i + 1));
      }
    }
    if (call_.states) copy_rows();
    pool_sequences();
  }

 private:
  static constexpr long BLOCK = 256;  // rows of the feed-forward network that fit a core's cache

  // The next reader of the rows: its norm and its product.
  struct Reader {
    const Norm* norm;
    const Matrix* matrix;  // null for the last states
  };

  Reader reader(long index) const {
    if (index == call_.num_layers) return {call_.final_norm, nullptr};
    return {&call_.layers[index].attention_norms.input, &call_.layers[index].qkv};
  }

  // Experts read the rows themselves, which are in post-norm layers also the part's input.
  static const Matrix* network_input(const Layer& layer) {
    return layer.experts.count ? nullptr : &layer.up;
  }

  // Single: of each sequence only the row of the pooled token continues.
  void mix(const Layer& layer, bool single) {
    const long width = layer.convolution ? config_.hidden_size : layer.heads.width();
    if (layer.convolution)
      convolve(layer, single);
    else
      attend_heads(layer, single);
    me_.wait();
    if (single) keep_pooled();
    stage_rows(layer.output, 0, rows_, width);
    add(layer.output, 0, rows_, width);
  }

  Range wanted_rows(long sequence, bool single) const {
    return single ? call_.pooled_row(sequence) : Range{0, call_.lengths[sequence]};
  }

  void attend_heads(const Layer& layer, bool single) {
    project(layer);
    const Heads& heads = layer.heads;
    const long stride = heads.qkv_width(), size = heads.size, width = heads.width();
    const long shared = heads.count / heads.kv_count;
    const auto [first, last] = me_.share(heads.count);
    auto space = desk_.head;
    space.size = size;
    const auto* queries = space_.qkv;
    auto* out = space_.stage;
    for (long i = part_.first; i < part_.last; i++) {
      const long length = call_.lengths[i], keys_seen = call_.key_count(i);
      const AttentionMask mask{keys_seen, layer.window, config_.causal != 0};
      const Range wanted = wanted_rows(i, single);
      const auto* keys = queries + width;
      const auto* values = keys + heads.kv_count * size;
      for (long head = first; head < last; head++) {
        const long key = head / shared * size;
        if (head == first || head % shared == 0)
          space.pack(keys + key, values + key, stride, keys_seen);
        attend_head(layer, head, {queries + head * size, keys + key, stride}, wanted, mask, space,
                    [&](long row, long d, Floats y) {
                      store(out + (row - wanted.first) * width + head * size + d, y);
                    });
      }
      queries += length * stride;
      out += (wanted.last - wanted.first) * width;
    }
  }

  // A thread computes some features of all rows, and reads no others.
  void convolve(const Layer& layer, bool single) {
    const long width = config_.hidden_size, stride = 3 * width;
    const Range mine = columns(width);
    auto* rows = space_.qkv;
    for (long start = 0; start < stride; start += width)
      product(layer.qkv, space_.narrow, 0, part_.tokens, width,
              {start + mine.first, start + mine.last},
              [&](long row, long column, Floats y) { store(rows + row * stride + column, y); });
    auto* out = space_.stage;
    for (long i = part_.first; i < part_.last; i++) {
      const GatedRows<Value> sequence{rows, call_.lengths[i], width};
      // Tokens that are not attended to count as zeros; a centred convolution reads them.
      if (config_.causal) sequence.clear(call_.key_count(i), layer.qkv.bias, mine);
      const Range wanted = wanted_rows(i, single);
      for (long row = wanted.first; row < wanted.last; row++, out += width)
        for (long d = mine.first; d < mine.last; d += W)
          store(out + d, sequence.convolve(layer.convolution, row, d));
      rows += sequence.length * stride;
    }
  }

  using Attention = typename Parts<Kind>::Attention;
  using Value = typename Attention::Operand;
  struct QueriesAndKeys {  // of a head within a sequence
    const Value *queries, *keys;
    long stride;
  };

  // Attention of the wanted queries of a head, whose keys and values are packed.
  template <typename Out>
  INLINE void attend_head(const Layer& layer, long head, const QueriesAndKeys& rows,
                          Range wanted, const AttentionMask& mask, const Head<Attention>& space,
                          Out&& out) const {
    Relation<Attention> relation(layer.relative, head, space.size, config_.buckets,
                                 call_.distances, desk_.relative, mask.keys);
    const bool relative{layer.relative};
    const long step = relative ? RelativeSpace::QUERIES : wanted.last - wanted.first;
    const auto scale = static_cast<float>(config_.scale), cap = static_cast<float>(config_.softcap);
    for (long t = wanted.first; t < wanted.last; t += step) {
      const Range some{t, std::min(t + step, wanted.last)};
      if (relative) relation.score_keys(rows.keys, rows.stride, some);
      const auto add = [&](long first, long count, Range keys, float* scores) {
        if (relative) relation.add(rows.queries, rows.stride, first, count, keys, scores);
        if (cap) cap_scores(scores, count * (keys.last - keys.first), scale, cap);
      };
      attend(rows.queries, rows.stride, some, mask, layer.first_bias + head, call_.position_bias,
             cap ? 1.0f : scale, space, add, out);
    }
  }

  void keep_pooled() {
    if (me_.rank == 0) {
      keep_pooled(space_.x);
      if (config_.gate_size) keep_pooled(space_.inputs);
    }
    rows_ = part_.last - part_.first;
    me_.wait();
  }

  void keep_pooled(float* all) const {
    const long width = config_.hidden_size;
    const float* rows = all;
    for (long i = part_.first; i < part_.last; rows += call_.lengths[i++] * width)
      std::memmove(all + (i - part_.first) * width, rows + call_.pooled_row(i).first * width,
                   width * sizeof(float));
  }

  // Queries, keys and values of some heads.
  void project(const Layer& layer) {
    const long count = layer.heads.count, before = count + layer.heads.kv_count;
    const auto queries = me_.share(count), keys = me_.share(layer.heads.kv_count);
    const Rotation& rotation = call_.rotations[layer.rotation_index];
    write(layer, layer.query_norm, rotation, queries);
    write(layer, layer.key_norm, rotation, {count + keys.first, count + keys.last});
    write(layer, layer.value_norm, {nullptr, nullptr}, {before + keys.first, before + keys.last});
    if (layer.heads.kv_count < count) me_.wait();  // another thread may have computed the keys
  }

  // Normalises and rotates queries and keys if the model does.
  void write(const Layer& layer, const Norm& norm, const Rotation& rotation, Range heads) {
    if (norm) return write_normalised(layer, norm, rotation, heads);
    const auto size = static_cast<uint32_t>(layer.heads.size);
    const Range wanted{heads.first * size, heads.last * size};
    const long stride = layer.heads.qkv_width();
    const int64_t* positions = call_.positions + part_.offset;
    auto* out = space_.qkv;
    if (!rotation)
      return product(
          layer.qkv, space_.narrow, 0, part_.tokens, config_.hidden_size, wanted,
          [&](long row, long column, Floats y) { store(out + row * stride + column, y); });
    product(layer.qkv, space_.narrow, 0, part_.tokens, config_.hidden_size, wanted,
            [&](long row, long column, Floats y) {
              const long feature = static_cast<uint32_t>(column) % size;
              store(out + row * stride + column,
                    rotation.turn(y, positions[row] * size + feature));
            });
  }

  void write_normalised(const Layer& layer, const Norm& norm, const Rotation& rotation,
                        Range heads) {
    const long size = layer.heads.size, stride = layer.heads.qkv_width();
    float* aside = desk_.aside;
    for (long head = heads.first; head < heads.last; head++) {
      const long before = head * size;
      product(layer.qkv, space_.narrow, 0, part_.tokens, config_.hidden_size,
              {before, before + size}, [&](long row, long column, Floats y) {
                store(aside + row * size + column - before, y);
              });
      for (long row = 0; row < part_.tokens; row++) {
        float* x = aside + row * size;
        normalise(x, size, norm, eps(), x);
        const long start = rotation ? call_.positions[part_.offset + row] * size : 0;
        auto* out = space_.qkv + row * stride + before;
        for (long d = 0; d < size; d += W)
          store(out + d, rotation ? rotation.turn(load(x + d), start + d) : load(x + d));
      }
    }
  }

  void feed_forward(const Layer& layer) {
    const long block = me_.size == 1 ? BLOCK : rows_, inner = config_.intermediate_size;
    for (long row = 0; row < rows_; row += block) {
      const long rows = std::min(rows_ - row, block);
      if (config_.gated)
        gate_rows(layer.up, row, rows);
      else
        activate_rows(layer.up, space_.narrow, row, rows);
      me_.wait();
      stage_rows(layer.down, 0, rows, inner);
      add(layer.down, row, rows, inner);
    }
  }

  void activate_rows(const Matrix& up, const Rows<Kind>& from, long row, long rows) {
    const long inner = config_.intermediate_size;
    auto* out = space_.stage;
    product(up, from, row, rows, config_.hidden_size, columns(inner),
            [&](long r, long column, Floats y) APART {
              store(out + r * inner + column, activated(y));
            });
  }

  // A panel of gates waits for the following panel of up (GLU, Shazeer 2020, arXiv 2002.05202).
  void gate_rows(const Matrix& up, long row, long rows) {
    const long inner = config_.intermediate_size;
    float* gates = desk_.aside;
    auto* out = space_.stage;
    product(up, space_.narrow, row, rows, config_.hidden_size, columns(2 * inner),
            [&](long r, long column, Floats y) APART {
              float* gate = gates + r * PANEL + column % PANEL;
              if (column / PANEL % 2 == 0) return store(gate, activated(y));
              const long feature = column / (2 * PANEL) * PANEL + column % PANEL;
              store(out + r * inner + feature, load(gate) * y);
            });
  }

  // A row adds up its experts in their order, whatever the other rows choose.
  void mix_experts(const Experts& experts) {
    route_rows(experts);
    gather_rows(experts);
    for (long i = 0, first = 0; i < experts.count; first = space_.ends[i++])
      pass(experts.each[i], first, space_.ends[i]);
  }

  void route_rows(const Experts& experts) {
    const long width = config_.hidden_size;
    const auto [first, last] = me_.share(rows_);
    for (long row = first; row < last; row++)
      route(space_.x + row * width, width, experts, desk_.logits,
            space_.shares + row * experts.count);
    me_.wait();
    if (me_.rank == 0) sort_rows(space_.shares, rows_, experts, space_.places, space_.ends);
    me_.wait();
  }

  // The operands of all experts, before the first adds its results to the rows.
  void gather_rows(const Experts& experts) {
    const long width = config_.hidden_size;
    const auto places = me_.share(rows_ * experts.top), rows = me_.share(rows_);
    for (long place = places.first, i = 0; place < places.last; place++) {
      while (place >= space_.ends[i]) i++;
      const float* x = space_.x + space_.places[place].row * width;
      if constexpr (std::is_same_v<typename Kind::Operand, float>)
        std::memcpy(space_.routed.data + place * width, x, width * sizeof(float));
      prepare(x, width, experts.each[i].up, space_.routed, place);
    }
    me_.wait();
    for (float* x = space_.x + rows.first * width; x < space_.x + rows.last * width; x += width)
      for (long d = 0; d < width; d += W) store(x + d, load(x + d) + load(experts.bias + d));
  }

  // The rows of some places through an expert.
  void pass(const Expert& expert, long first, long last) {
    const long block = me_.size == 1 ? BLOCK : rows_, inner = config_.intermediate_size;
    for (long place = first; place < last; place += block) {
      const long rows = std::min(last - place, block);
      activate_rows(expert.up, space_.routed, place, rows);
      me_.wait();
      stage_rows(expert.down, 0, rows, inner);
      add_shares(expert.down, space_.places + place, rows);
    }
  }

  void add_shares(const Matrix& down, const Place* places, long rows) {
    const long width = config_.hidden_size;
    product(down, space_.wide, 0, rows, config_.intermediate_size, columns(width),
            [&](long r, long column, Floats y) {
              float* sum = space_.x + places[r].row * width + column;
              store(sum, fma(y, splat(places[r].share), load(sum)));
            });
    me_.wait();
  }

  // The features of the tokens, which are the factors of the gate.
  void featurise(const InputGate& gate) {
    const long inner = config_.gate_size;
    float* out = space_.features;
    read_rows({&gate.norms.input, &gate.features}, space_.inputs);
    product(gate.features, space_.narrow, 0, rows_, config_.hidden_size, columns(inner),
            [&](long row, long column, Floats y) { store(out + row * inner + column, y); });
    me_.wait();
    const auto [first, last] = me_.share(rows_);
    for (long row = first; row < last; row++)
      normalise(out + row * inner, inner, gate.features_norm, eps(), out + row * inner);
  }

  void multiply_gate(const InputGate& gate) {
    const long inner = config_.gate_size;
    const float* features = space_.features;
    auto* out = space_.stage;
    product(gate.down, space_.narrow, 0, rows_, config_.hidden_size, columns(inner),
            [&](long row, long column, Floats y) APART {
              const long place = row * inner + column;
              store(out + place, activated(y) * load(features + place));
            });
    me_.wait();
    stage_rows(gate.up, 0, rows_, inner);
    add(gate.up, 0, rows_, inner);
  }

  INLINE Floats activated(Floats y) const { return activate<Kind::exact>(y, config_.activation); }

  // output_sum += a product of wide operands, which start with the operands of `row`.
  void add(const Matrix& matrix, long row, long rows, long depth) {
    float* output_sum = space_.output_sum + row * config_.hidden_size;
    product(matrix, space_.wide, 0, rows, depth, columns(config_.hidden_size),
            [&](long r, long column, Floats y) {
              float* sum = output_sum + r * config_.hidden_size + column;
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
  float eps() const { return static_cast<float>(config_.norm_eps); }

  void embed_rows() {
    const long width = config_.hidden_size;
    const auto [first, last] = me_.share(part_.tokens);
    const int64_t* ids = call_.token_ids + part_.offset;
    const EmbeddingTables& tables = *call_.embedding_tables;
    long row = 0;
    for (long i = part_.first; i < part_.last; i++) {
      const long end = std::min<long>(last, row + call_.lengths[i]);
      long next = tables.padding_id < 0 ? 0 : 1;
      for (; row < end; row++) {
        const long position = ids[row] == tables.padding_id ? 0 : next++;
        if (row >= first) embed(tables, ids[row], position, width, eps(), space_.x + row * width);
      }
    }
    if (!call_.num_layers) return;  // without layers there is no memory for the rest
    if (space_.output_sum != space_.x)
      std::memset(space_.output_sum + first * width, 0, (last - first) * width * sizeof(float));
    if (config_.gate_size)
      std::memcpy(space_.inputs + first * width, space_.x + first * width,
                  (last - first) * width * sizeof(float));
  }

  void copy_rows() {
    const long width = config_.hidden_size;
    const auto [first, last] = me_.share(part_.tokens);
    std::memcpy(call_.states + (part_.offset + first) * width, space_.x + first * width,
                (last - first) * width * sizeof(float));
  }

  void pool_sequences() {
    const long width = config_.hidden_size;
    const auto [first, last] = me_.share(part_.last - part_.first);
    const float* rows = space_.x;
    for (long i = part_.first; i < part_.last; rows += pooled_rows(call_.lengths[i++]) * width) {
      if (i - part_.first < first || i - part_.first >= last) continue;
      for (long j = 0; j < call_.num_poolings; j++)
        pool(rows, pooled_rows(call_.lengths[i]), width, call_.poolings[j],
             call_.vectors + (i * call_.num_poolings + j) * width);
    }
  }

  // Number of rows of a sequence that may be pooled.
  long pooled_rows(long length) const { return rows_ == part_.tokens ? length : 1; }

  // The rows that the feed-forward network reads.
  void settle_mixed(const Layer& layer) {
    const Reader network{&layer.ffn_norms.input, network_input(layer)};
    if (in_parallel(config_.arrangement)) return read_rows(network, space_.x);
    if (config_.arrangement == Arrangement::double_post) add_input();
    settle_rows(layer.attention_norms, network);
  }

  // Adds the rows to the output of a part before it is normalised.
  void add_input() {
    const long width = config_.hidden_size;
    const auto [first, last] = me_.share(rows_);
    for (long i = first * width; i < last * width; i += W)
      store(space_.output_sum + i, load(space_.output_sum + i) + load(space_.x + i));
  }

  // scale: factor of the sum of x and a normalised output.
  void settle_rows(const PartNorms& norms, Reader next, float scale = 1.0f) {
    const long width = config_.hidden_size;
    const auto [first, last] = me_.share(rows_);
    for (long row = first; row < last; row++) {
      float *x = space_.x + row * width, *output_sum = space_.output_sum + row * width;
      if (output_sum != x) add_row(norms.output, output_sum, x, scale);
      normalise(x, width, norms.sum, eps(), x);
      read_row(next, space_.x, row);
    }
    me_.wait();
  }

  // Clears the memory for the next part's output.
  void add_row(const Norm& norm, float* output_sum, float* x, float scale) {
    normalise(output_sum, config_.hidden_size, norm, eps(), output_sum);
    for (long d = 0; d < config_.hidden_size; d += W) {
      store(x + d, (load(x + d) + load(output_sum + d)) * scale);
      store(output_sum + d, Floats{});
    }
  }

  void read_rows(Reader reader, float* rows) {
    const auto [first, last] = me_.share(rows_);
    for (long row = first; row < last; row++) read_row(reader, rows, row);
    me_.wait();
  }

  INLINE void read_row(Reader reader, float* rows, long row) {
    float* x = rows + row * config_.hidden_size;
    const bool apart = reader.matrix && !reads_sums(config_.arrangement);
    float* read = apart ? aside(row) : x;
    normalise(x, config_.hidden_size, *reader.norm, eps(), read);
    if (reader.matrix) prepare(read, config_.hidden_size, *reader.matrix, space_.narrow, row);
  }

  // Memory for a normalised row if x keeps the row itself: with the operands, if they are floats.
  float* aside(long row) const {
    if constexpr (std::is_same_v<typename Kind::Operand, float>)
      return space_.narrow.data + row * config_.hidden_size;
    else
      return desk_.row;
  }

  void stage_rows(const Matrix& reader, long first, long count, long width) {
    if constexpr (!std::is_same_v<typename Parts<Kind>::Stage, typename Kind::Operand>) {
      const auto [from, to] = me_.share(count);
      for (long row = first + from; row < first + to; row++)
        prepare(space_.stage + row * width, width, reader, space_.wide, row);
      me_.wait();
    } else if constexpr (std::is_same_v<typename Kind::Operand, float>) {
      for (long row = first; reader.observed && row < first + count; row++)
        observe(space_.stage + row * width, width, reader);
    }
  }

  const ForwardCall& call_;
  const KernelConfig& config_;
  const Part& part_;
  const Space<Kind>& space_;
  const Desk<Kind>& desk_;
  Member me_;
  long rows_;  // of x: one for each token, at the end one for each sequence
};

}  // namespace
