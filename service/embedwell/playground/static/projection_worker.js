// Worker that reads tables of texts and projects vectors to two dimensions.
importScripts("vendor/papaparse.js", "vendor/ml-matrix.js", "vendor/umap.js");

const REDUCED = 50; // principal components as input of UMAP, as its authors advise

self.onmessage = async ({ data }) => {
  try {
    const run = { parse, project }[data.action];
    postMessage({ result: await run(data) });
  } catch (error) {
    postMessage({ error: error.message });
  }
};

/** Rows of a file: objects of a CSV or JSONL file, {text} for each line of any other. The format of a text without a file name is detected. */
function parse({ text, name }) {
  if (/\.(jsonl|ndjson)$/i.test(name) || (!name && isJson(text.split("\n", 1)[0]))) {
    return text.split("\n").filter((line) => line.trim()).map((line, i) => {
      try {
        const value = JSON.parse(line);
        return typeof value === "string" ? { text: value } : value;
      } catch {
        throw new Error(`line ${i + 1}${name && ` of ${name}`} is not JSON`);
      }
    });
  }
  const table = Papa.parse(text, { header: true, skipEmptyLines: "greedy", delimitersToGuess: [",", ";", "\t"] });
  if (/\.[ct]sv$/i.test(name) || (!name && isTable(table))) return table.data;
  return text.split("\n").filter((line) => line.trim()).map((line) => ({ text: line.trim() }));
}

/** Whether a line is a JSON object. */
function isJson(line) {
  try {
    return line.startsWith("{") && typeof JSON.parse(line) === "object";
  } catch {
    return false;
  }
}

/** Whether a text is a table (rows of equal length below short names) rather than sentences with commas. */
const isTable = ({ errors, meta: { fields } }) =>
  errors.length === 0 && fields.length > 1 && fields.every((name) => name && name === name.trim() && name.length <= 40);

/** Project vectors (B, D) to points (B, 2) in one Float32Array, with the share of variance of each axis. */
function project({ vectors, width, method }) {
  const count = vectors.length / width;
  const { scores, explained } = principalComponents(vectors, count, width, method === "umap" ? REDUCED : 2);
  const components = explained.length;
  if (method !== "umap") return { points: scores.map((row) => [row[0], row[1] ?? 0]), explained };
  const umap = new UMAP.UMAP({ nNeighbors: Math.min(15, count - 1), minDist: 0.1, random: seededRandom(1) });
  const epochs = umap.initializeFit(scores);
  for (let epoch = 0; epoch < epochs; epoch++) {
    umap.step();
    if (epoch % 20 === 0) postMessage({ progress: epoch / epochs });
  }
  return { points: umap.getEmbedding(), explained, components };
}

/** Exact principal components, from the smaller of the covariance and the Gram matrix. */
function principalComponents(vectors, count, width, kept) {
  const rows = Array.from({ length: count }, (_, i) => Float64Array.from(vectors.subarray(i * width, (i + 1) * width)));
  for (let j = 0; j < width; j++) {
    let mean = 0;
    for (const row of rows) mean += row[j] / count;
    for (const row of rows) row[j] -= mean;
  }
  const columns = Array.from({ length: width }, (_, j) => Float64Array.from(rows, (row) => row[j]));
  const wide = width > count, [vectorsOf, size] = wide ? [rows, count] : [columns, width];
  const products = new mlMatrix.Matrix(size, size);
  for (let i = 0; i < size; i++) {
    for (let j = i; j < size; j++) {
      let sum = 0;
      const a = vectorsOf[i], b = vectorsOf[j];
      for (let k = 0; k < a.length; k++) sum += a[k] * b[k];
      products.set(i, j, sum);
      products.set(j, i, sum);
    }
  }
  const { realEigenvalues, eigenvectorMatrix } = new mlMatrix.EigenvalueDecomposition(products, { assumeSymmetric: true });
  const order = realEigenvalues.map((value, i) => i).sort((i, j) => realEigenvalues[j] - realEigenvalues[i]).slice(0, Math.min(kept, width, count - 1)); // centred points have one dimension less than their number
  const total = realEigenvalues.reduce((sum, value) => sum + Math.max(value, 0), 0) || 1;
  const axes = order.map((i) => eigenvectorMatrix.getColumn(i));
  const scores = rows.map((row, r) => order.map((column, axis) => {
    if (wide) return axes[axis][r] * Math.sqrt(Math.max(realEigenvalues[column], 0));
    let sum = 0;
    for (let j = 0; j < width; j++) sum += row[j] * axes[axis][j];
    return sum;
  }));
  return { scores, explained: order.map((i) => Math.max(realEigenvalues[i], 0) / total) };
}

/** Mulberry32, a seeded generator, so that the result is reproducible. */
function seededRandom(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
