// Columns of a table of texts: which has the texts, and which colours points.
import { CATEGORIES, css, colorScale } from "./colors.js";

const OTHER = "#8a8a8a";
const LOOKED_AT = 50; // rows that tell which column has the longest texts

const valuesOf = (rows, name) => rows.map((row) => row[name] ?? "");
const areNumbers = (values) => values.every((value) => value !== "" && Number.isFinite(Number(value)));

/** Whether the values of a column repeat, so that they form groups. */
function hasGroups(rows, name) {
  const count = new Set(valuesOf(rows, name)).size;
  return count < rows.length && count <= Math.max(CATEGORIES.length, rows.length / 2);
}

/** The column named text, or else the one with the longest texts. */
export function textColumn(rows, names) {
  if (names.includes("text")) return "text";
  const length = (name) => valuesOf(rows.slice(0, LOOKED_AT), name).reduce((sum, value) => sum + String(value).length, 0);
  return [...names].sort((a, b) => length(b) - length(a))[0];
}

/** The columns by which colours mean something: of groups or of numbers. Those of groups come first. */
export function colorColumns(rows, names) {
  const groups = names.filter((name) => hasGroups(rows, name));
  return { groups, numbers: names.filter((name) => !groups.includes(name) && areNumbers(valuesOf(rows, name))) };
}

/** Colours and shapes (see plot_geometry.js) of the values of a column: a scale for many numbers, a palette for anything else. */
export function coloring(rows, name) {
  if (!name) return { colorOf: () => CATEGORIES[0], shapeOf: () => 0, legend: [] };
  const values = valuesOf(rows, name), counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
  if (counts.size > CATEGORIES.length && areNumbers(values)) {
    const numbers = values.map(Number), [low, high] = ends(numbers), scale = colorScale(low, high, false);
    return { colorOf: (i) => css(scale(numbers[i])), legend: [low, high].map((end) => [String(end), css(scale(end)), 0]), shapeOf: () => 0 };
  }
  const common = [...counts].sort((a, b) => b[1] - a[1]).slice(0, CATEGORIES.length).map(([value]) => value);
  const palette = new Map(common.map((value, k) => [value, CATEGORIES[k]])), shapes = new Map(common.map((value, k) => [value, k]));
  if (areNumbers(common)) common.sort((a, b) => a - b);
  const legend = common.map((value) => [String(value), palette.get(value), shapes.get(value)]);
  if (counts.size > common.length) legend.push(["other", OTHER, 0]);
  return { colorOf: (i) => palette.get(values[i]) || OTHER, shapeOf: (i) => shapes.get(values[i]) ?? 0, legend };
}

/** The smallest and the largest of some numbers. */
export const ends = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
