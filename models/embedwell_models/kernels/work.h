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
        me_(me) {
    have_rows(part.tokens);
  }

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
  using Attention = typename Parts<Kind>::Attention;
  using Value = typename Attention::Operand;
  using Stage = typename Parts<Kind>::Stage;

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
    const long width = mixed_width(layer);
    if (layer.convolution)
      convolve(layer, single);
    else if (layer.delta_net)
      recall(layer, single);
    else
      attend_heads(layer, single);
    me_.wait();
    if (single) keep_pooled();
    each_block([&](Range rows) {
      Stage* staged = space_.stage + rows.first * width;
      if (layer.mixed_norm)
        normalise_staged(layer.mixed_norm, staged, rows.last - rows.first, width, eps());
      // Of a model with massive activations, see quantization.py.
      if constexpr (std::is_same_v<Kind, Int8>)
        if (!layer.output.scales) return add<Attention>(layer.output, staged, rows, width);
      add(layer.output, staged, rows, width);
    });
  }

  long mixed_width(const Layer& layer) const {
    if (layer.convolution) return config_.hidden_size;
    return layer.delta_net ? layer.delta_net.heads.width() : layer.heads.width();
  }

  Range wanted_rows(long sequence, bool single) const {
    return single ? call_.pooled_row(sequence) : Range{0, call_.lengths[sequence]};
  }

  void attend_heads(const Layer& layer, bool single) {
    project(layer);
    const Range costs = me_.share(attention_cost(layer, single));
    long cost = 0;
    for (long key = 0; key < layer.heads.kv_count; key++) {
      const auto* rows = space_.qkv;
      auto* out = space_.stage;
      for (long i = part_.first; i < part_.last; i++) {
        const Range wanted = wanted_rows(i, single);
        const AttentionCost each(mask(layer, i), wanted);
        attend_key_head(layer, key, each, {costs.first - cost, costs.last - cost}, rows, out);
        cost += layer.heads.shared() * each.total();
        rows += call_.lengths[i] * layer.heads.qkv_width();
        out += (wanted.last - wanted.first) * layer.heads.width();
      }
    }
  }

  // This thread's queries of the heads that share a head of keys, within a sequence.
  void attend_key_head(const Layer& layer, long key, const AttentionCost& cost, Range costs,
                       const Value* rows, Stage* out) {
    const Heads& heads = layer.heads;
    const long stride = heads.qkv_width(), size = heads.size, width = heads.width();
    const Value *keys = rows + width + key * size, *values = keys + heads.kv_count * size;
    const Value* gates = rows + width + 2 * heads.kv_count * size;
    auto space = desk_.head;
    space.size = size;
    long packed = -1;
    const long first = key * heads.shared(), last = first + heads.shared();
    for (long head = first; head < last; head++) {
      const Range mine = cost.queries(costs);
      costs = {costs.first - cost.total(), costs.last - cost.total()};
      auto* const results = out + head * size - cost.wanted().first * width;
      attend_head(layer, head, {rows + head * size, keys, values, stride}, mine, cost.mask(),
                  space, packed,
                  [=](long row, long d, Floats y) { store(results + row * width + d, y); });
      if (!heads.gated) continue;
      for (long row = mine.first; row < mine.last; row++)
        gate_result(results + row * width, gates + row * stride + head * size, size);
    }
  }

  static void gate_result(Stage* y, const Value* gates, long size) {
    for (long d = 0; d < size; d += W)
      store(y + d, load(y + d) / (1.0f + exponential(-load(gates + d))));
  }

  AttentionMask mask(const Layer& layer, long sequence) const {
    return {call_.key_count(sequence), layer.window, config_.causal != 0};
  }

  // Of all heads and sequences.
  long attention_cost(const Layer& layer, bool single) const {
    long total = 0;
    for (long i = part_.first; i < part_.last; i++)
      total += AttentionCost(mask(layer, i), wanted_rows(i, single)).total();
    return total * layer.heads.count;
  }

  // A thread computes some features of all rows, and reads no others.
  void convolve(const Layer& layer, bool single) {
    const long width = config_.hidden_size, stride = 3 * width;
    const auto [first, last] = me_.share(width / COLUMNS);
    const Range mine{first * COLUMNS, last * COLUMNS};
    auto* rows = space_.qkv;
    if (by_rows_) me_.wait();
    for (long start = 0; start < stride; start += width)
      multiply_rows(layer.qkv, space_.narrow, {0, part_.tokens}, width,
                    {start + mine.first, start + mine.last},
                    [&](long row, long column, Floats y) {
                      store(rows + row * stride + column, y);
                    });
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

  // A thread computes whole heads of sequences.
  void recall(const Layer& layer, bool single) {
    const DeltaHeads& heads = layer.delta_net.heads;
    const long stride = heads.row_width(), width = heads.width();
    auto* rows = space_.qkv;
    each_block([&](Range some) { write_plain(layer.qkv, some, stride, {0, stride}); });
    me_.wait();
    const auto [first, last] = me_.share(part_.tokens * heads.count);
    auto* out = space_.stage;
    long cost = 0;
    for (long i = part_.first; i < part_.last; i++) {
      const Range wanted = wanted_rows(i, single);
      for (long head = 0; head < heads.count; head++, cost += call_.lengths[i])
        if (cost >= first && cost < last)
          recall_head(layer.delta_net, head, rows, {wanted, call_.key_count(i)}, out);
      rows += call_.lengths[i] * stride;
      out += (wanted.last - wanted.first) * width;
    }
  }

  struct RecalledRows {
    Range wanted;
    long attended;  // the first ones; the results of others are zeros
  };

  void recall_head(const DeltaNet& net, long head, const Value* rows, RecalledRows recalled,
                   Stage* out) {
    const long width = net.heads.width(), size = net.heads.size;
    const Range wanted = recalled.wanted;
    const auto write = [&](long row, auto&& result) {
      if (row < wanted.first) return;
      Stage* place = out + (row - wanted.first) * width + head * size;
      for (long d = 0; d < size; d += W) store(place + d, result(d));
    };
    const long end = std::min(wanted.last, recalled.attended);
    DeltaHead<Value>(net, head, rows, desk_.delta)
        .run(end, eps(), [&](long row, const float* result) {
          write(row, [&](long d) { return load(result + d); });
        });
    for (long row = std::max(wanted.first, end); row < wanted.last; row++)
      write(row, [](long) { return Floats{}; });
  }

  struct HeadRows {  // of a head within a sequence
    const Value *queries, *keys, *values;
    long stride;
  };

  // Attention of the wanted queries of a head. packed: the first of the keys that are packed.
  template <typename Out>
  INLINE void attend_head(const Layer& layer, long head, const HeadRows& rows, Range wanted,
                          const AttentionMask& mask, const Head<Attention>& space, long& packed,
                          Out&& out) const {
    Relation<Attention> relation(layer.relative, head, space.size, config_.buckets,
                                 call_.distances, desk_.relative);
    const bool relative{layer.relative};
    const long step = relative ? RelativeSpace::QUERIES : space.QUERIES;
    const auto scale = static_cast<float>(config_.scale), cap = static_cast<float>(config_.softcap);
    for (long t = wanted.first; t < wanted.last; t += step) {
      const Range some{t, std::min(t + step, wanted.last)}, seen = mask.multiplied(some);
      const auto add = [&](long first, long count, Range keys, float* scores) {
        if (relative) relation.add(rows.queries, rows.stride, first, count, keys, scores);
        if (cap) cap_scores(scores, count * (keys.last - keys.first), scale, cap);
      };
      long key = seen.first / PACKED * PACKED;
      do {  // without keys, too
        const Range keys{key, std::min(key + PACKED, mask.keys)};
        if (packed != key) space.pack(rows.keys, rows.values, rows.stride, keys);
        packed = key;
        if (relative) relation.score_keys(rows.keys, rows.stride, some, keys);
        const auto attend_block = [&](auto whole) {
          attend<whole>(rows.queries, rows.stride, some, keys, mask, layer.first_bias + head,
                        call_.position_bias, cap ? 1.0f : scale, space, add, out);
        };
        if (mask.keys <= PACKED)
          attend_block(std::true_type{});
        else
          attend_block(std::false_type{});
      } while ((key += PACKED) < seen.last);
    }
  }

  void keep_pooled() {
    if (me_.rank == 0) {
      keep_pooled(space_.x);
      if (config_.gate_size) keep_pooled(space_.inputs);
    }
    have_rows(part_.last - part_.first);
    me_.wait();
  }

  void keep_pooled(float* all) const {
    const long width = config_.hidden_size;
    const float* rows = all;
    for (long i = part_.first; i < part_.last; rows += call_.lengths[i++] * width)
      std::memmove(all + (i - part_.first) * width, rows + call_.pooled_row(i).first * width,
                   width * sizeof(float));
  }

  // Queries, keys and values of all heads.
  void project(const Layer& layer) {
    const long keys = layer.heads.count, values = keys + layer.heads.kv_count;
    const long gates = values + layer.heads.kv_count;
    const Rotation& rotation = call_.rotations[layer.rotation_index];
    each_block([&](Range rows) {
      write(layer, layer.query_norm, rotation, rows, {0, keys});
      write(layer, layer.key_norm, rotation, rows, {keys, values});
      write(layer, layer.value_norm, {nullptr, nullptr}, rows, {values, gates});
      if (layer.heads.gated) write(layer, {}, {nullptr, nullptr}, rows, {gates, gates + keys});
    });
    me_.wait();
  }

  // Normalises and rotates queries and keys if the model does.
  void write(const Layer& layer, const Norm& norm, const Rotation& rotation, Range rows,
             Range heads) {
    if (norm) return write_normalised(layer, norm, rotation, rows, heads);
    const auto size = static_cast<uint32_t>(layer.heads.size);
    const Range wanted{heads.first * size, heads.last * size};
    const long stride = layer.heads.qkv_width();
    const int64_t* positions = call_.positions + part_.offset;
    auto* out = space_.qkv;
    if (!rotation) return write_plain(layer.qkv, rows, stride, wanted);
    product(layer.qkv, space_.narrow, rows, config_.hidden_size, wanted,
            [=, turning = rotation](long row, long column, Floats y) {
              const long feature = static_cast<uint32_t>(column) % size;
              store(out + row * stride + column,
                    turning.turn(y, positions[row] * size + feature));
            });
  }

  // Columns of a product, in rows of `stride` columns.
  void write_plain(const Matrix& matrix, Range rows, long stride, Range columns) {
    auto* out = space_.qkv;
    product(matrix, space_.narrow, rows, config_.hidden_size, columns,
            [=](long row, long column, Floats y) { store(out + row * stride + column, y); });
  }

  void write_normalised(const Layer& layer, const Norm& norm, const Rotation& rotation, Range rows,
                        Range heads) {
    Portions mine(rows.last - rows.first, heads.last - heads.first, group());
    while (mine.next())
      for (long head = mine.units.first; head < mine.units.last; head++)
        write_head(layer, norm, rotation,
                   {rows.first + mine.rows.first, rows.first + mine.rows.last}, heads.first + head);
  }

  void write_head(const Layer& layer, const Norm& norm, const Rotation& rotation, Range rows,
                  long head) {
    const long size = layer.heads.size, stride = layer.heads.qkv_width(), before = head * size;
    float* aside = desk_.aside - rows.first * size;
    multiply_rows(layer.qkv, space_.narrow, rows, config_.hidden_size, {before, before + size},
                  [&](long row, long column, Floats y) {
                    store(aside + row * size + column - before, y);
                  });
    for (long row = rows.first; row < rows.last; row++) {
      float* x = aside + row * size;
      normalise(x, size, norm, eps(), x);
      const long start = rotation ? call_.positions[part_.offset + row] * size : 0;
      auto* out = space_.qkv + row * stride + before;
      for (long d = 0; d < size; d += W)
        store(out + d, rotation ? rotation.turn(load(x + d), start + d) : load(x + d));
    }
  }

  void feed_forward(const Layer& layer) {
    each_block([&](Range rows) {
      if (config_.gated)
        gate_rows(layer.up, rows);
      else
        activate_rows(layer.up, space_.narrow, rows);
      group().wait();
      const long inner = config_.intermediate_size;
      if (layer.inner_norm)
        normalise_staged(layer.inner_norm, stage(), rows.last - rows.first, inner,
                         static_cast<float>(config_.inner_norm_eps));
      add(layer.down, stage(), rows, inner);
    });
  }

  // Normalises rows that wait in a stage.
  void normalise_staged(const Norm& norm, Stage* staged, long count, long width, float eps) {
    const auto [first, last] = group().share(count);
    for (long row = first; row < last; row++) {
      Stage* x = staged + row * width;
      if constexpr (std::is_same_v<Stage, float>) {
        normalise(x, width, norm, eps, x);
      } else {
        float* floats = own_row(width);
        for (long d = 0; d < width; d += W) store(floats + d, load(x + d));
        normalise(floats, width, norm, eps, floats);
        for (long d = 0; d < width; d += W) store(x + d, load(floats + d));
      }
    }
    group().wait();
  }

  void activate_rows(const Matrix& up, const Rows<Kind>& from, Range rows) {
    const long inner = config_.intermediate_size;
    auto* out = stage();
    product(up, from, rows, config_.hidden_size, {0, inner},
            [=](long row, long column, Floats y) APART {
              store(out + (row - rows.first) * inner + column, activated(y));
            });
  }

  // A panel of gates waits for the following panel of up (GLU, Shazeer 2020, arXiv 2002.05202).
  void gate_rows(const Matrix& up, Range rows) {
    const long inner = config_.intermediate_size;
    float* gates = desk_.aside;
    auto* out = stage();
    product(up, space_.narrow, rows, config_.hidden_size, {0, 2 * inner},
            [=](long row, long column, Floats y) APART {
              const long r = row - rows.first;
              float* gate = gates + r % BLOCK * PANEL + column % PANEL;
              if (column / PANEL % 2 == 0) return store(gate, activated(y));
              const long feature = column / (2 * PANEL) * PANEL + column % PANEL;
              store(out + r * inner + feature, load(gate) * y);
            });
  }

  // A row adds up its experts in their order, whatever the other rows choose.
  void mix_experts(const Experts& experts) {
    route_rows(experts);
    gather_rows(experts);
    const bool by_rows = by_rows_;
    by_rows_ = me_.size == 1;
    for (long i = 0, first = 0; i < experts.count; first = space_.ends[i++])
      pass(experts.each[i], first, space_.ends[i]);
    by_rows_ = by_rows;
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
      activate_rows(expert.up, space_.routed, {place, place + rows});
      me_.wait();
      add_shares(expert.down, operands(expert.down, stage(), rows, inner), space_.places + place,
                 rows);
    }
  }

  void add_shares(const Matrix& down, const Rows<Kind>& from, const Place* places, long rows) {
    const long width = config_.hidden_size;
    product(down, from, {0, rows}, config_.intermediate_size, {0, width},
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
    each_block([&](Range rows) {
      product(gate.features, space_.narrow, rows, config_.hidden_size, {0, inner},
              [&](long row, long column, Floats y) { store(out + row * inner + column, y); });
    });
    group().wait();
    const auto [first, last] = me_.share(rows_);
    for (long row = first; row < last; row++)
      normalise(out + row * inner, inner, gate.features_norm, eps(), out + row * inner);
  }

  void multiply_gate(const InputGate& gate) {
    const long inner = config_.gate_size;
    auto* out = stage();
    each_block([&](Range rows) {
      const float* features = space_.features + rows.first * inner;
      product(gate.down, space_.narrow, rows, config_.hidden_size, {0, inner},
              [&](long row, long column, Floats y) APART {
                const long place = (row - rows.first) * inner + column;
                store(out + place, activated(y) * load(features + place));
              });
      group().wait();
      add(gate.up, out, rows, inner);
    });
  }

  INLINE Floats activated(Floats y) const { return activate<Kind::exact>(y, config_.activation); }

  // output_sum += a product with values that wait in a stage, of a block of rows.
  template <typename Of = Kind>
  void add(const Matrix& matrix, Stage* staged, Range rows, long depth) {
    const long count = rows.last - rows.first, width = config_.hidden_size;
    float* output_sum = space_.output_sum + rows.first * width;
    product(matrix, operands<Of>(matrix, staged, count, depth), {0, count}, depth, {0, width},
            [=](long r, long column, Floats y) {
              float* sum = output_sum + r * width + column;
              store(sum, load(sum) + y);
            });
    group().wait();
  }

  // This thread's portions of a product. Calls done with the rows and columns of the product.
  template <typename Of, typename Done>
  INLINE void product(const Matrix& matrix, const Rows<Of>& from, Range rows, long depth,
                      Range columns, Done&& done) {
    Portions mine(rows.last - rows.first, (columns.last - columns.first) / COLUMNS, group());
    // Apart, because compilers optimise the product less within a loop.
    const auto portion = [&](Range some, Range these) APART {
      const Matrix weights = matrix;
      const Rows<Of> operands = from;
      const auto finished = done;  // copies, which compilers keep in registers
      multiply_rows(weights, operands, some, depth, these, finished);
    };
    while (mine.next())
      portion({rows.first + mine.rows.first, rows.first + mine.rows.last},
              {columns.first + mine.units.first * COLUMNS,
               columns.first + mine.units.last * COLUMNS});
  }

  template <typename Of, typename Done>
  INLINE void multiply_rows(const Matrix& matrix, const Rows<Of>& from, Range rows, long depth,
                            Range columns, Done&& done) {
    multiply(from.data + rows.first * depth, depth, rows.last - rows.first,
             matrix.read<Of>(depth), depth, columns,
             [&](long r, long column, typename Of::Sums sums) {
               done(rows.first + r, column, finish(sums, matrix, from, rows.first + r, column));
             });
  }

  void have_rows(long count) {
    rows_ = count;
    by_rows_ = me_.has_rows(count);
  }
  // The threads that share each product: this one alone where it has rows of its own.
  Member group() const { return by_rows_ ? Member{0, 1, nullptr} : me_; }
  // Whether other threads may read the stage of all rows.
  bool own_stage() const { return by_rows_ && me_.size > 1; }
  Stage* stage() const { return own_stage() ? desk_.stage : space_.stage; }

  // Calls each with the rows of a block: all rows, or one after another of this thread's blocks.
  template <typename Each>
  INLINE void each_block(Each&& each) {
    const auto [first, last] = by_rows_ ? me_.share(rows_) : Range{0, rows_};
    const long most = by_rows_ ? BLOCK : rows_;
    for (long row = first; row < last; row += most) each(Range{row, std::min(row + most, last)});
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
    const long units = width / COLUMNS;
    auto [first, last] = me_.share((part_.last - part_.first) * units);
    const float* rows = space_.x;
    if (by_rows_) me_.wait();
    for (long i = part_.first; i < part_.last; i++, first -= units, last -= units) {
      const Range columns{std::max(first, 0L) * COLUMNS, std::min(last, units) * COLUMNS};
      const long length = pooled_rows(call_.lengths[i]);
      for (long j = 0; j < call_.num_poolings && columns.first < columns.last; j++)
        pool(rows, length, width, columns, call_.poolings[j],
             call_.vectors + (i * call_.num_poolings + j) * width);
      rows += length * width;
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
    group().wait();
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
    group().wait();
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

  // Makes operands of rows that wait in a stage.
  template <typename Of = Kind>
  Rows<Of> operands(const Matrix& reader, Stage* staged, long count, long width) const {
    using Operand = typename Of::Operand;
    if constexpr (!std::is_same_v<Stage, Operand>) {
      const Rows<Kind>& memory = own_stage() ? desk_.wide : space_.wide;
      const Rows<Of> wide{reinterpret_cast<Operand*>(memory.data), memory.scales, memory.zeros};
      const auto [first, last] = group().share(count);
      for (long row = first; row < last; row++)
        prepare(staged + row * width, width, reader, wide, row);
      group().wait();
      return wide;
    } else {
      if constexpr (std::is_same_v<Stage, float>)
        for (long row = 0; reader.observed && row < count; row++)
          observe(staged + row * width, width, reader);
      return {staged, nullptr, nullptr};
    }
  }

  const ForwardCall& call_;
  const KernelConfig& config_;
  const Part& part_;
  const Space<Kind>& space_;
  const Desk<Kind>& desk_;
  Member me_;
  long rows_;     // of x: one for each token, at the end one for each sequence
  bool by_rows_;  // whether this thread computes rows of its own
};

}  // namespace
