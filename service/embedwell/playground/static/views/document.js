// Search in a document: its sentences embedded in context (late chunking), and the same sentences embedded alone.
import { html } from "../vendor/htm-preact.js";
import { embed, embedRequest, floats, sendJson, useLoad } from "../api.js";
import { colorScale, css, textOn } from "../colors.js";
import { ColorBar } from "../heatmap.js";
import { CopyButtons, Results, Status, TextArea, clipped } from "../parts.js";
import { useUrlState } from "../url_state.js";
import { cosine, ranking } from "../vector_math.js";

const DEFAULTS = {
  query: "How many people live in Berlin?",
  document: "Berlin is the capital of Germany. The city has 3.85 million inhabitants. Its area is 891 square kilometres.\nMadrid is the capital of Spain. The city has 3.4 million inhabitants. It lies 650 metres above the sea.",
};

const segmenter = Intl.Segmenter && new Intl.Segmenter(undefined, { granularity: "sentence" });

/** Split a document into sentences, also at line breaks. */
function sentencesOf(text) {
  const parts = segmenter ? Array.from(segmenter.segment(text), (part) => part.segment) : text.split(/(?<=[.!?])\s/);
  return parts.map((part) => part.trim()).filter(Boolean);
}

const tokensOf = async (input, signal) => {
  const body = { ...input, on_overflow: "end", layout: "block", encoding_format: "base64" };
  const { results: [{ tokens, shape, embeddings }] } = await sendJson({ path: "/tokens", body }, signal);
  const numbers = floats(embeddings), width = shape[1];
  return { tokens, vectors: Array.from({ length: shape[0] }, (_, i) => numbers.subarray(i * width, (i + 1) * width)) };
};

/** Number of sentences that end within the first `length` characters of their joined text. */
function countWithin(sentences, length) {
  let stop = -1, count = 0;
  while (count < sentences.length && (stop += 1 + sentences[count].length) <= length) count++;
  return count;
}

/** Cosines with the query: of each sentence in context and alone, and of each token. */
async function search(query, document, signal) {
  const all = sentencesOf(document), text = all.join(" ");
  const { tokens, vectors } = await tokensOf({ inputs: text }, signal);
  const lastRead = Math.max(...tokens.map((token) => token.stop ?? 0));
  const sentences = all.slice(0, countWithin(all, lastRead));
  if (!sentences.length) throw new Error("The first sentence is longer than the model reads. Shorten it.");
  const [late, [queryVector, ...alone]] = await Promise.all([
    tokensOf({ chunks: [sentences] }, signal),
    embed([query, ...all], signal),
  ]);
  const score = (vector) => cosine(queryVector, vector);
  return {
    sentences: all, text,
    late: late.vectors.map(score),
    alone: alone.map(score),
    tokens: tokens.map((token, i) => ({ ...token, score: score(vectors[i]) })).filter((token) => !token.special),
  };
}

export default function Document() {
  const [state, update] = useUrlState("document", DEFAULTS);
  const sentences = sentencesOf(state.document), ready = state.query.trim() !== "" && sentences.length > 0;
  const result = useLoad(async (signal) => (ready ? search(state.query, state.document, signal) : null), [state.query, state.document]);
  const data = ready && result.data, leftOut = data ? data.sentences.length - data.late.length : 0;
  return html`
    <p class="lead">A sentence that is embedded alone has lost what “the city” refers to. Late chunking reads the document as a whole and pools
      each sentence afterwards. Compare the results of the query for both, and the tokens that are most similar to it.</p>
    <${TextArea} label="Query" rows=${1} value=${state.query} onInput=${(query) => update({ query })} />
    <${TextArea} label="Document" rows=${5} value=${state.document} onInput=${(document) => update({ document })} />
    <${Status} ...${result} />
    <${Results} stale=${result.error}>
      ${!ready && html`<p class="hint">Type a query and a document to search in it.</p>`}
      ${data && html`<div class="columns">
        <${Sentences} title="Read in context (late chunking)" sentences=${data.sentences} scores=${data.late}
          note=${leftOut > 0 && `✂ The document is longer than the model reads: the last ${leftOut} sentences are left out.`} />
        <${Sentences} title="Each sentence embedded alone" sentences=${data.sentences} scores=${data.alone} />
      </div>
      <${Tokens} text=${data.text} tokens=${data.tokens} />`}
      ${ready && html`<${CopyButtons} requests=${[{ path: "/tokens", body: { chunks: [sentences] } }, embedRequest([state.query, ...sentences])]} />`}
    <//>`;
}

/** The sentences that have a score, in its colour and with its rank. */
function Sentences({ title, sentences, scores, note }) {
  const low = Math.min(0, ...scores), high = Math.max(...scores), color = colorScale(low, high, false), order = ranking(scores);
  const ranks = new Map(order.map((i, rank) => [i, rank + 1]));
  return html`<section><h2>${title}</h2>
    ${note && html`<p class="cut" role="note">${note}</p>`}
    <p>Best: <strong dir="auto">${clipped(sentences[order[0]], 200)}</strong></p>
    <p class="reading" dir="auto">${scores.map((score, i) => {
      const fill = color(score);
      return html`<span class="sentence" style=${{ background: css(fill), color: textOn(fill) }}>${sentences[i]}<small>#${ranks.get(i)} · ${score.toFixed(2)}</small></span> `;
    })}</p><${ColorBar} low=${low} high=${high} /></section>`;
}

function Tokens({ text, tokens }) {
  const scores = tokens.map((token) => token.score), low = Math.min(...scores), high = Math.max(...scores), color = colorScale(low, high, false);
  return html`<section><h2>Tokens by their cosine with the query</h2><p class="reading" dir="auto">${tokens.map((token, i) => {
    const fill = color(token.score), gap = text.slice(i ? tokens[i - 1].stop : 0, token.start);
    return html`${gap}<span class="sentence" title=${token.score.toFixed(3)} style=${{ background: css(fill), color: textOn(fill) }}>${text.slice(token.start, token.stop)}</span>`;
  })}</p><${ColorBar} low=${low} high=${high} /></section>`;
}
