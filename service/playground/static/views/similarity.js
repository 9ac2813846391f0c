// Two lists of texts compared: the matrix, the ranking, and what shorter or smaller vectors change.
import { html, useState } from "../vendor/htm-preact.js";
import { embed, embedRequest, sendJson, useLoad } from "../api.js";
import { colorScale, css, textOn } from "../colors.js";
import { CopyButtons, Heatmap, Select, Slider, Status, TextArea, short } from "../parts.js";
import { useUrlState } from "../url_state.js";
import { cut, mean, metrics, outputTypes, ranking } from "../vector_math.js";

const DEFAULTS = {
  queries: "How do I reset my password?\nWhere is my parcel?\nCan I get my money back?",
  texts: "Choose “Forgot password” on the sign-in page.\nTrack a delivery with the number in your e-mail.\nRefunds are paid within five working days.\nOur office is closed on Sundays.\nParcels are delivered from Monday to Saturday.",
  metric: "cosine",
  dimensions: 0, // 0: all
  type: "float32",
  best: 3,
};
const LARGE = 24; // texts on one side, from which on a heat map is clearer than a table

const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

export default function Similarity({ theme }) {
  const [state, update] = useUrlState("similarity", DEFAULTS);
  const a = lines(state.queries), b = lines(state.texts);
  const request = { path: "/similarity", body: { a, b, metric: state.metric } };
  const result = useLoad(async (signal) => {
    if (!a.length || !b.length) return null;
    const [{ scores }, vectors] = await Promise.all([sendJson(request, signal), embed([...a, ...b], signal)]);
    return { a, b, scores, vectors };
  }, [state.queries, state.texts, state.metric]);
  const full = result.data?.vectors[0].length;
  const dimensions = Math.min(state.dimensions || full, full);
  const changed = full && (dimensions < full || state.type !== "float32");
  const scores = changed ? shrunkScores(result.data, dimensions, state) : result.data?.scores;
  return html`
    <p class="lead">Every text of one list compared with every text of the other. Then make the vectors shorter or smaller, and see
      whether the best matches stay the same.</p>
    <div class="columns">
      <${TextArea} label="Queries, one per line" rows=${5} value=${state.queries} onInput=${(queries) => update({ queries })} />
      <${TextArea} label="Texts, one per line" rows=${5} value=${state.texts} onInput=${(texts) => update({ texts })} />
    </div>
    <div class="controls">
      <${Select} label="Metric" value=${state.metric} options=${Object.keys(metrics)} onChange=${(metric) => update({ metric })} />
      ${full && html`<${Slider} label="Dimensions" value=${dimensions} min=${8} max=${full} step=${8} onInput=${(value) => update({ dimensions: value >= full ? 0 : value })} />`}
      <${Select} label="Numbers" value=${state.type} options=${Object.keys(outputTypes)} onChange=${(type) => update({ type })} />
      <${Slider} label="Matches shown" value=${state.best} min=${1} max=${10} onInput=${(best) => update({ best })} />
    </div>
    <${Status} ...${result} />
    ${result.data && html`
      ${changed && html`<${Change} data=${result.data} scores=${scores} dimensions=${dimensions} type=${state.type} best=${state.best} />`}
      <${Matrix} a=${result.data.a} b=${result.data.b} scores=${scores} theme=${theme} metric=${state.metric} />
      <${Best} a=${result.data.a} b=${result.data.b} scores=${scores} before=${result.data.scores} count=${state.best} />`}
    <${CopyButtons} requests=${changed ? [request, embedRequest([...a, ...b], state.type === "float32" ? {} : { output_dtype: state.type })] : [request]} />`;
}

/** The scores of vectors that were cut and rounded, computed here as the server would. */
function shrunkScores({ a, vectors }, dimensions, { metric, type }) {
  const small = vectors.map((vector) => outputTypes[type](dimensions < vector.length ? cut(vector, dimensions) : vector));
  return small.slice(0, a.length).map((query) => small.slice(a.length).map((text) => metrics[metric](query, text)));
}

function Change({ data, scores, dimensions, type, best }) {
  const bits = { float32: 32, int8: 8, binary: 1 }[type], full = data.vectors[0].length;
  const bytes = Math.ceil((dimensions * bits) / 8), kept = data.scores.map((row, i) => {
    const top = new Set(ranking(row).slice(0, best));
    return ranking(scores[i]).slice(0, best).filter((j) => top.has(j)).length / top.size;
  });
  const same = data.scores.filter((row, i) => ranking(row)[0] === ranking(scores[i])[0]).length;
  return html`<div class="tiles" aria-label="What the smaller vectors change">
    <div class="tile"><b>${bytes}</b><span>bytes per vector instead of ${full * 4} (${short((full * 4) / bytes)} times fewer)</span></div>
    <div class="tile"><b>${same} of ${data.a.length}</b><span>queries keep their best match</span></div>
    <div class="tile"><b>${Math.round(100 * mean(kept))} %</b><span>of the best ${best} stay among them</span></div>
  </div>`;
}

function Matrix({ a, b, scores, theme, metric }) {
  const title = `${metric[0].toUpperCase()}${metric.slice(1)} of every pair`;
  if (a.length > LARGE || b.length > LARGE) {
    return html`<${Heatmap} title=${title} rows=${scores} theme=${theme} rowName="query" columnName="text" rowLabel=${(i) => `“${a[i]}”`} columnLabel=${(j) => `“${b[j]}”`} height=${Math.min(480, 14 * a.length + 40)} />`;
  }
  const all = scores.flat(), color = colorScale(Math.min(...all), Math.max(...all), false);
  return html`<h2>${title}</h2><div class="scroll" tabindex="0" role="region" aria-label=${title}><table class="matrix">
    <thead><tr><td></td>${b.map((text) => html`<th scope="col" title=${text}><span>${text}</span></th>`)}</tr></thead>
    <tbody>${a.map((query, i) => html`<tr><th scope="row" title=${query}><span>${query}</span></th>
      ${scores[i].map((score) => html`<td class="number" style=${{ background: css(color(score)), color: textOn(color(score)) }}>${score.toFixed(3)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

function Best({ a, b, scores, before, count }) {
  return html`<h2>Best matches</h2><div class="columns">${a.map((query, i) => {
    const places = ranking(before[i]);
    return html`<div><strong>${query}</strong><ol>${ranking(scores[i]).slice(0, count).map((j, rank) => {
      const moved = places.indexOf(j) - rank;
      return html`<li>${b[j]} <span class="model">${scores[i][j].toFixed(3)}${moved ? `, was ${places.indexOf(j) + 1}.` : ""}</span></li>`;
    })}</ol></div>`;
  })}</div>`;
}
