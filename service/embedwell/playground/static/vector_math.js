// Comparisons of vectors; the formulas of POST /similarity.

export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

export const norm = (a) => Math.sqrt(dot(a, a));
export const cosine = (a, b) => dot(a, b) / (norm(a) * norm(b) || 1);

/** Distances are negative, so that larger is closer. */
export const metrics = {
  cosine,
  dot,
  euclidean: (a, b) => -Math.sqrt(a.reduce((sum, x, i) => sum + (x - b[i]) ** 2, 0)),
  manhattan: (a, b) => -a.reduce((sum, x, i) => sum + Math.abs(x - b[i]), 0),
};

/** Truncate a vector to its first dimensions, and normalise it. */
export function cut(vector, dimensions) {
  const part = vector.subarray(0, dimensions);
  const length = norm(part) || 1;
  return part.map((x) => x / length);
}

/** Convert a vector to one of the server's output types, as numbers to compare. */
export const outputTypes = {
  float32: (vector) => vector,
  int8: (vector) => {
    const largest = vector.reduce((most, x) => Math.max(most, Math.abs(x)), 0) || 1;
    return vector.map((x) => Math.round((x * 127) / largest));
  },
  binary: (vector) => vector.map((x) => (x > 0 ? 1 : -1)), // cosine = 1 - 2 Hamming / dimensions
};

/** Indices by descending score. */
export const ranking = (scores) =>
  Array.from(scores.keys()).sort((i, j) => scores[j] - scores[i] || i - j);

export const mean = (values) => values.reduce((sum, x) => sum + x, 0) / values.length;
