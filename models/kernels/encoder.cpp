// The layers of a transformer encoder on the CPU, over packed sequences.
//
// A text's numbers are computed in an order that depends on the text alone, so its result is the
// same bits in every batch and on any number of threads. Compiled once for each instruction set;
// the numbers stay in a core's own cache from layer to layer. No library's headers are needed.

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "attention.h"
#include "pool.h"
#include "team.h"

namespace {

struct Layer {
  Matrix qkv, output, up, down;
  Norm attention_norm, ffn_norm;
};

struct Shape {
  int64_t width, heads, inner;  // D, H, and the width of the feed-forward network
  Activation activation;
  double eps;
};

struct Call {
  const Shape* shape;
  const Layer* layers;
  int64_t count;  // of layers to compute
  const Tables* tables;
  Bias bias;
  const int64_t* ids;      // (T,)
  const int64_t* lengths;  // (B,)
  int64_t sequences;       // B
  float* states;           // (T, D), or null if nobody wants them
  const Pooling* poolings;
  int64_t pooled;  // how many poolings
  float* vectors;  // (B, pooled * D)
};

// How a precision computes attention, and where it puts what is not quantised yet.
template <typename Kind>
struct Parts {
  using Attention = Kind;
  using Stage = typename Kind::Operand;
};
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

// What a team works in.
template <typename Kind>
struct Space {
  using Value = typename Parts<Kind>::Attention::Operand;
  float* x;
  Rows<Kind> narrow;  // operands D wide
  Value* qkv;
  typename Parts<Kind>::Stage* stage;  // what becomes wide operands
  Rows<Kind> wide;                     // operands up to the feed-forward network's width

  Space(Arena& arena, const Shape& shape, long tokens) {
    const long rows = tokens + SLACK;
    x = arena.take<float>(rows * shape.width);
    narrow = take(arena, rows, shape.width, x);
    qkv = arena.take<Value>(rows * 3 * shape.width);
    const long widest = std::max(shape.width, shape.inner);
    stage = arena.take<typename Parts<Kind>::Stage>(rows * widest);
    wide = take(arena, rows, widest, stage);
  }

 private:
  // Numbers that are operands already are not copied.
  template <typename Number>
  static Rows<Kind> take(Arena& arena, long rows, long width, Number* numbers) {
    using Operand = typename Kind::Operand;
    if constexpr (std::is_same_v<Number, Operand>)
      return {numbers, nullptr, nullptr};
    else
      return {arena.take<Operand>(rows * width), arena.take<float>(rows),
              arena.take<int32_t>(rows)};
  }
};

// Whole sequences that follow each other in a call.
struct Part {
  long first, last, offset, tokens, longest;
};

// What one thread of a team does for a part.
template <typename Kind>
class Work {
 public:
  using Attention = typename Parts<Kind>::Attention;
  using Working = Head<typename Attention::Operand>;

  Work(const Call& call, const Part& part, const Space<Kind>& space, const Working& working,
       Member me)
      : call_(call), shape_(*call.shape), part_(part), space_(space), working_(working), me_(me) {}

  void run() {
    embed_rows();
    if (call_.count) prepare_rows(call_.layers[0].qkv);
    me_.wait();
    for (long i = 0; i < call_.count; i++) {
      attention(call_.layers[i]);
      feed_forward(call_.layers[i], i + 1 < call_.count ? &call_.layers[i + 1].qkv : nullptr);
    }
    if (call_.states) copy_rows();
    pool_sequences();
  }

 private:
  static constexpr long BLOCK = 256;  // rows of the feed-forward network that fit a core's cache

  void attention(const Layer& layer) {
    const long width = shape_.width, size = width / shape_.heads;
    const auto [first, last] = me_.share(shape_.heads);
    for (long part = 0; part < 3 * width; part += width)
      product(layer.qkv, space_.narrow, 0, part_.tokens, width,
              {part + first * size, part + last * size}, [&](long row, long column, Floats y) {
                store(space_.qkv + row * 3 * width + column, y);
              });
    auto* qkv = space_.qkv;
    auto* out = space_.stage;
    for (long i = part_.first; i < part_.last; i++) {
      for (long head = first; head < last; head++)
        attend<Attention>(
            qkv + head * size, width, call_.lengths[i], size, head, call_.bias, working_,
            [&](long row, long d, Floats y) { store(out + row * width + head * size + d, y); });
      qkv += call_.lengths[i] * 3 * width;
      out += call_.lengths[i] * width;
    }
    me_.wait();
    stage_rows(layer.output, 0, part_.tokens, width);
    add(layer.output, 0, part_.tokens, width);
    normalise_rows(layer.attention_norm, &layer.up);
  }

  void feed_forward(const Layer& layer, const Matrix* next) {
    const long block = me_.size == 1 ? BLOCK : part_.tokens, inner = shape_.inner;
    for (long row = 0; row < part_.tokens; row += block) {
      const long rows = part_.tokens - row < block ? part_.tokens - row : block;
      auto* out = space_.stage;
      product(layer.up, space_.narrow, row, rows, shape_.width, columns(inner),
              [&](long r, long column, Floats y) {
                store(out + r * inner + column, activate<Kind::exact>(y, shape_.activation));
              });
      me_.wait();
      stage_rows(layer.down, 0, rows, inner);
      add(layer.down, row, rows, inner);
    }
    normalise_rows(layer.ffn_norm, next);
  }

  // x += a product of wide operands, which begin with those of `row`.
  void add(const Matrix& matrix, long row, long rows, long depth) {
    float* x = space_.x + row * shape_.width;
    product(matrix, space_.wide, 0, rows, depth, columns(shape_.width),
            [&](long r, long column, Floats y) {
              float* sum = x + r * shape_.width + column;
              store(sum, load(sum) + y);
            });
    me_.wait();
  }

  template <typename Done>
  INLINE void product(const Matrix& matrix, const Rows<Kind>& from, long row, long rows, long depth,
                      Range columns, Done&& done) {
    const auto* panels = static_cast<const typename Kind::Weight*>(matrix.panels);
    multiply<Kind>(from.data + row * depth, depth, rows, panels, depth, columns.first, columns.last,
                   [&](long r, long column, typename Kind::Sums sums) {
                     done(r, column, finish(sums, matrix, from, row + r, column));
                   });
  }

  Range columns(long count) const {
    const auto [first, last] = me_.share(count / COLUMNS);
    return {first * COLUMNS, last * COLUMNS};
  }

  void embed_rows() {
    const auto [first, last] = me_.share(part_.tokens);
    const auto eps = static_cast<float>(shape_.eps);
    long start = 0;
    for (long i = part_.first; i < part_.last; start += call_.lengths[i++]) {
      const long end = std::min<long>(last, start + call_.lengths[i]);
      for (long row = std::max(first, start); row < end; row++)
        embed(*call_.tables, call_.ids[part_.offset + row], row - start, shape_.width, eps,
              space_.x + row * shape_.width);
    }
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
    for (long i = part_.first; i < part_.last; rows += call_.lengths[i++] * width) {
      if (i - part_.first < first || i - part_.first >= last) continue;
      for (long j = 0; j < call_.pooled; j++)
        pool(rows, call_.lengths[i], width, call_.poolings[j],
             call_.vectors + (i * call_.pooled + j) * width);
    }
  }

  void prepare_rows(const Matrix& reader) {
    const auto [first, last] = me_.share(part_.tokens);
    for (long row = first; row < last; row++)
      prepare(space_.x + row * shape_.width, shape_.width, reader, space_.narrow, row);
  }

  void normalise_rows(const Norm& norm, const Matrix* reader) {
    const auto [first, last] = me_.share(part_.tokens);
    for (long row = first; row < last; row++) {
      float* x = space_.x + row * shape_.width;
      normalise(x, shape_.width, norm, static_cast<float>(shape_.eps));
      if (reader) prepare(x, shape_.width, *reader, space_.narrow, row);
    }
    me_.wait();
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
  const Working& working_;
  Member me_;
};

// All threads on one part, or each on parts of its own.
struct Plan {
  std::vector<Part> parts;
  bool together;
};

Part whole(const Call& call) {
  Part part{0, call.sequences, 0, 0, 0};
  for (long i = 0; i < call.sequences; i++) {
    part.tokens += call.lengths[i];
    part.longest = std::max<long>(part.longest, call.lengths[i]);
  }
  return part;
}

// Parts of about `target` tokens.
std::vector<Part> split(const Call& call, long target) {
  std::vector<Part> parts;
  Part part{0, 0, 0, 0, 0};
  for (long i = 0; i < call.sequences; i++) {
    const long length = call.lengths[i];
    if (part.tokens && part.tokens + length / 2 > target) {
      parts.push_back(part);
      part = {i, i, part.offset + part.tokens, 0, 0};
    }
    part.tokens += length;
    part.longest = std::max(part.longest, length);
    part.last = i + 1;
  }
  parts.push_back(part);
  return parts;
}

// Tokens that the busiest of some threads computes when each takes the next part.
long busiest(const std::vector<Part>& parts, long threads) {
  std::vector<long> load(threads);
  for (const Part& part : parts) *std::min_element(load.begin(), load.end()) += part.tokens;
  return *std::max_element(load.begin(), load.end());
}

constexpr long MANY = 256;  // tokens of a part: above, they leave a core's own cache

Plan plan(const Call& call, long threads) {
  const Part all = whole(call);
  if (threads > 1 && all.tokens < FEW * threads) return {{all}, true};
  const long rounds = (all.tokens + MANY * threads - 1) / (MANY * threads);
  Plan apart{split(call, (all.tokens + rounds * threads - 1) / (rounds * threads)), false};
  if (busiest(apart.parts, threads) * threads > all.tokens * 5 / 4) return {{all}, true};
  return apart;
}

template <typename Kind>
struct Run {
  const Call& call;
  const Plan plan;
  Threads threads;
  const Space<Kind>* together;
  Barrier barrier;
  std::atomic<long> rank{0}, next{0};
};

template <typename Kind>
void work(void* data) {
  static thread_local Arena arena, head;
  using Working = typename Work<Kind>::Working;
  auto& run = *static_cast<Run<Kind>*>(data);
  const Tiles tiles;
  const long size = run.call.shape->width / run.call.shape->heads;
  if (run.plan.together) {
    const Part& part = run.plan.parts[0];
    const auto working = head.lay<Working>(part.longest, size);
    const Member me{run.rank++, run.threads(), &run.barrier};
    Work<Kind>(run.call, part, *run.together, working, me).run();
    return;
  }
  const long count = static_cast<long>(run.plan.parts.size());
  for (long i; (i = run.next++) < count;) {
    const Part& part = run.plan.parts[i];
    const auto working = head.lay<Working>(part.longest, size);
    const auto space = arena.lay<Space<Kind>>(*run.call.shape, part.tokens);
    Work<Kind>(run.call, part, space, working, {0, 1, nullptr}).run();
  }
}

template <typename Kind>
void encode(const Call& call, Parallel parallel, Threads threads, long count) {
  static thread_local Arena arena;
  Run<Kind> run{call, plan(call, count), threads, nullptr, {}};
  const auto space =
      arena.lay<Space<Kind>>(*call.shape, run.plan.together ? run.plan.parts[0].tokens : 0);
  run.together = &space;
  const long useful = run.plan.together ? count : std::min<long>(count, run.plan.parts.size());
  parallel(work<Kind>, &run, static_cast<unsigned>(useful), 0);
}

}  // namespace

extern "C" {

void encode_float32(const Call* call, Parallel parallel, Threads threads, int64_t count) {
  encode<Float32>(*call, parallel, threads, count);
}
#ifdef __AVX512BF16__
void encode_bfloat16(const Call* call, Parallel parallel, Threads threads, int64_t count) {
  encode<BFloats>(*call, parallel, threads, count);
}
#endif
#ifdef __AVX512VNNI__
void encode_int8(const Call* call, Parallel parallel, Threads threads, int64_t count) {
  encode<Int8>(*call, parallel, threads, count);
}
#endif

// Linux lends the matrix unit's registers to a process that asks; whether it did.
int use_tiles() {
#ifdef __AMX_TILE__
  constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
#else
  return 1;
#endif
}
}
