// Places on a scatter plot, in CSS pixels: of points, of labels, and within an outline.
import { ends } from "./columns.js";
import { clipped } from "./parts.js";

const MARGIN = 24, REACH = 24; // REACH: how far from a point the pointer still means it
const STRETCH = 1.5; // how much longer a unit of one axis may be, to fill the plot
const CELL = 4, MOST_LABELS = 60; // CELL: resolution of the room for labels

/** Places of points: each axis fills the plot, unless one would be stretched too much. */
export function onCanvas(points, width, height) {
  const [left, right] = ends(points.map(([x]) => x)), [bottom, top] = ends(points.map(([, y]) => y));
  const fits = [(width - 2 * MARGIN) / (right - left || 1), (height - 2 * MARGIN) / (top - bottom || 1)];
  const [scaleX, scaleY] = fits.map((fit) => Math.min(fit, STRETCH * Math.min(...fits)));
  return points.map(([x, y]) => [width / 2 + (x - (left + right) / 2) * scaleX, height / 2 - (y - (bottom + top) / 2) * scaleY]);
}

/** Index of the place nearest to (x, y), or null if none is near. */
export function nearestPlace(places, x, y) {
  let best = null, least = REACH ** 2;
  places.forEach(([px, py], i) => {
    const distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance < least) [best, least] = [i, distance];
  });
  return best;
}

/** Position of a point's text: the side of the point with more room. */
export const nextTo = ([x, y], width, height) => ({
  left: x < width / 2 ? `${x + 12}px` : "auto", right: x < width / 2 ? "auto" : `${width - x + 12}px`,
  top: y < height / 2 ? `${y + 8}px` : "auto", bottom: y < height / 2 ? "auto" : `${height - y + 8}px`,
});

const corners = (count, turn, size) => Array.from({ length: count }, (_, k) => {
  const angle = 2 * Math.PI * (k / count + turn);
  return [size * Math.sin(angle), -size * Math.cos(angle)];
});
const star = (count) => corners(2 * count, 0, 1).map(([x, y], k) => (k % 2 ? [0.45 * x, 0.45 * y] : [1.3 * x, 1.3 * y]));
/** Shapes of categories as outlines of radius 1; null: a circle. Each differs from the others without its colour. */
const SHAPES = [null, corners(4, 1 / 8, 1.25), corners(3, 0, 1.35), corners(4, 0, 1.3), corners(3, 1 / 2, 1.35), star(4), star(5)];

/** Draw the path of a shape into a canvas's context. */
export function shapePath(context, shape, [x, y], radius) {
  context.beginPath();
  if (SHAPES[shape]) for (const [dx, dy] of SHAPES[shape]) context.lineTo(x + radius * dx, y + radius * dy);
  else context.arc(x, y, radius, 0, 2 * Math.PI);
  context.closePath();
}

/** The points of a shape for SVG, or "" for a circle. */
export const shapePoints = (shape) => (SHAPES[shape] || []).map((point) => point.map((value) => (6 + 4 * value).toFixed(1)).join()).join(" ");

/** Indices of the places within an outline, whose last point joins its first. */
export function within(places, outline) {
  const crosses = ([x, y]) => ([ax, ay], k) => {
    const [bx, by] = outline[(k + 1) % outline.length];
    return ay > y !== by > y && x < ax + ((bx - ax) * (y - ay)) / (by - ay);
  };
  return [...places.keys()].filter((i) => outline.filter(crosses(places[i])).length % 2 === 1);
}

/**
 * Labels [text, x, y] next to their points, where they cover no point and no earlier label.
 * order: indices of texts, the most important first. measure: returns the width of a text.
 */
export function placeLabels(places, texts, order, width, height, measure) {
  const columns = Math.ceil(width / CELL), taken = new Set(), labels = [];
  const cells = (x, y, w, h) => {
    const covered = [];
    for (let row = Math.floor(y / CELL); row <= (y + h) / CELL; row++) for (let column = Math.floor(x / CELL); column <= (x + w) / CELL; column++) covered.push(row * columns + column);
    return covered;
  };
  for (const [x, y] of places) for (const cell of cells(x - 4, y - 4, 8, 8)) taken.add(cell);
  for (const i of order) {
    if (labels.length === MOST_LABELS) break;
    const text = clipped(texts[i], width < 600 ? 32 : 60), size = measure(text), [x, y] = places[i];
    const box = [x + 9, x - 9 - size].filter((left) => left > 0 && left + size < width).map((left) => [left, cells(left, y - 6, size, 12)])
      .find(([, covered]) => !covered.some((cell) => taken.has(cell)));
    if (!box) continue;
    for (const cell of box[1]) taken.add(cell);
    labels.push([text, box[0], y + 4]);
  }
  return labels;
}
