// One thread's share of a forward pass: its rows, their products with matrices, and the sums of the
// layers' parts.

#pragma once

#include "plan.h"

namespace {

// The next reader of the rows: its norm and its product.
struct Reader {
  const Norm* norm;
  const Matrix* matrix;  // null for the last states
};

template <typename Kind>
class Pass {
 public:
  using Attention = typename Precision<Kind>::Attention;
  using Value = typename Attention::Operand;
  using Stage = typename Precision<Kind>::Stage;

  Pass(const ForwardCall& call, const Part& part, const TeamMemory<Kind>& team,
       const ThreadMemory<Kind>& own, Member me)
      : call(call), config(*call.config), part(part), team(team), own(own), me(me) {
    set_rows(part.tokens);
  }

  const ForwardCall& call;
  const KernelConfig& config;
  const Part& part;
  const TeamMemory<Kind>& team;
  const ThreadMemory<Kind>& own;
  Member me;
  long num_rows;    // of x: one for each token, at the end one for each sequence
  bool rows_apart;  // whether this thread computes rows of its own

  void set_rows(long count) {
    num_rows = count;
    rows_apart = me.owns_rows(count);
  }
  // The threads that share each product: this one alone where it has rows of its own.
  Member group() const { return rows_apart ? Member{0, 1, nullptr} : me; }
  Stage* stage() const { return own_stage() ? own.stage : team.stage; }
  float eps() const { return static_cast<float>(config.norm_eps); }

  // Calls each with the rows of a block: all rows, or one after another of this thread's blocks.
  template <typename Each>
  INLINE void each_block(Each&& each) const {
    const auto [first, last] = rows_apart ? me.share(num_rows) : Range{0, num_rows};
    const long most = rows_apart ? BLOCK : num_rows;
    for (long row = first; row < last; row += most) each(Range{row, std::min(row + most, last)});
  }

  // This thread's portions of a product. Calls done with the rows and columns of the product.
  template <typename Of, typename Done>
  INLINE void product(const Matrix& matrix, const Rows<Of>& from, Range rows, long depth,
                      Range columns, Done&& done) const {
    Portions mine(rows.last - rows.first, (columns.last - columns.first) / COLUMNS, group());
    // Apart, because compilers optimise the product less within a loop.
    const auto portion = [&](Range some, Range these) APART {
      const Matrix weights = matrix;
      const Rows<Of> operands = from;
      const auto finished = done;  // copies, which compilers keep in registers
      multiply_rows(weights, operands, some, depth, these, finished);
    };
    while (mine.next())
      portion(
          {rows.first + mine.rows.first, rows.first + mine.rows.last},
          {columns.first + mine.units.first * COLUMNS, columns.first + mine.units.last * COLUMNS});
  }

  template <typename Of, typename Done>
  static INLINE void multiply_rows(const Matrix& matrix, const Rows<Of>& from, Range rows,
                                   long depth, Range columns, Done&& done) {
    multiply(from.data + rows.first * depth, depth, rows.last - rows.first, matrix.read<Of>(depth),
             depth, columns, [&](long r, long column, typename Of::Sums sums) {
               done(rows.first + r, column, finish(sums, matrix, from, rows.first + r, column));
             });
  }

  // output_sum += a product with values that wait in a stage, of a block of rows.
  template <typename Of = Kind>
  void add(const Matrix& matrix, Stage* staged, Range rows, long depth) const {
    const long count = rows.last - rows.first, width = config.hidden_size;
    float* output_sum = team.output_sum + rows.first * width;
    product(matrix, operands<Of>(matrix, staged, count, depth), {0, count}, depth, {0, width},
            [=](long r, long column, Floats y) {
              float* sum = output_sum + r * width + column;
              store(sum, load(sum) + y);
            });
    group().wait();
  }

  // Makes operands of rows that wait in a stage.
  template <typename Of = Kind>
  Rows<Of> operands(const Matrix& reader, Stage* staged, long count, long width) const {
    using Operand = typename Of::Operand;
    if constexpr (!std::is_same_v<Stage, Operand>) {
      const Rows<Kind>& memory = own_stage() ? own.wide : team.wide;
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

  // Normalises rows that wait in a stage.
  void normalise_staged(const Norm& norm, Stage* staged, long count, long width, float eps) const {
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

  // Normalises rows and makes operands of them for the reader.
  void read_rows(Reader reader, float* rows) const {
    const auto [first, last] = me.share(num_rows);
    for (long row = first; row < last; row++) read_row(reader, rows, row);
    group().wait();
  }

  // Ends a part of a layer: x = scale * (x + output), normalised, and read by the next part.
  void settle_rows(const PartNorms& norms, Reader next, float scale = 1.0f) const {
    const long width = config.hidden_size;
    const auto [first, last] = me.share(num_rows);
    for (long row = first; row < last; row++) {
      float *x = team.x + row * width, *output_sum = team.output_sum + row * width;
      if (output_sum != x) add_row(norms.output, output_sum, x, scale);
      normalise(x, width, norms.sum, eps(), x);
      read_row(next, team.x, row);
    }
    group().wait();
  }

 private:
  // Whether other threads may read the stage of all rows.
  bool own_stage() const { return rows_apart && me.size > 1; }

  // Clears the memory for the next part's output.
  void add_row(const Norm& norm, float* output_sum, float* x, float scale) const {
    normalise(output_sum, config.hidden_size, norm, eps(), output_sum);
    for (long d = 0; d < config.hidden_size; d += W) {
      store(x + d, (load(x + d) + load(output_sum + d)) * scale);
      store(output_sum + d, Floats{});
    }
  }

  INLINE void read_row(Reader reader, float* rows, long row) const {
    float* x = rows + row * config.hidden_size;
    const bool apart = reader.matrix && !reads_sums(config.arrangement);
    float* read = apart ? aside(row) : x;
    normalise(x, config.hidden_size, *reader.norm, eps(), read);
    if (reader.matrix) prepare(read, config.hidden_size, *reader.matrix, team.narrow, row);
  }

  // Memory for a normalised row if x keeps the row itself: with the operands, if they are floats.
  float* aside(long row) const {
    if constexpr (std::is_same_v<typename Kind::Operand, float>)
      return team.narrow.data + row * config.hidden_size;
    else
      return own.row;
  }
};

}  // namespace
