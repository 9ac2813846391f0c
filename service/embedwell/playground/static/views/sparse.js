// Sparse vectors: the weighted words of a text, and the words that two texts share.
import { html } from "../vendor/htm-preact.js";
import { send, sendJson, useLoad } from "../api.js";
import { Bars } from "../bars.js";
import { colorScale, css, textOn } from "../colors.js";
import { ColorBar } from "../heatmap.js";
import { CopyButtons, Results, Slider, Status, TextArea, Truncated } from "../parts.js";
import { useUrlState } from "../url_state.js";

const DEFAULTS = { first: "How do I reset my password?", second: "Choose “Forgot password” on the sign-in page.", shown: 20 };
const MOST = 100; // maximum words of a list

/** role: "query" or "document", if the model distinguishes them. */
const sparseRequest = (inputs, role) => ({ path: "/embed_sparse", body: { inputs, ...(role ? { input_type: role } : {}), truncate: true } });

/** A text's tokens, and its weights by vocabulary id, largest first. */
async function weigh(text, role, signal) {
  const response = await send(sparseRequest(text, role), signal), [entries] = await response.json();
  const [tokens] = await sendJson({ path: "/tokenize", body: { inputs: text, prompt: "", add_special_tokens: false } }, signal);
  const weights = new Map(entries.sort((a, b) => b.value - a.value).map(({ index, value }) => [index, value]));
  return { text, tokens, weights, truncated: response.headers.get("x-truncated") !== "0" };
}

/** The entries that two texts have, by the product of their weights: [{id, weights, product}]. */
const overlap = ([first, second]) => [...first.weights].filter(([id]) => second.weights.has(id))
  .map(([id, weight]) => ({ id, weights: [weight, second.weights.get(id)], product: weight * second.weights.get(id) }))
  .sort((a, b) => b.product - a.product);

/** All data of the view: the texts, their shared entries, and the words of all ids. */
async function compare(texts, roles, signal) {
  const inputs = await Promise.all(texts.map((text, i) => weigh(text, roles[i], signal)));
  const shared = inputs.length > 1 ? overlap(inputs) : [];
  const ids = new Set([...inputs.flatMap(({ weights }) => [...weights.keys()].slice(0, MOST)), ...shared.slice(0, MOST).map(({ id }) => id)]);
  const names = ids.size ? await sendJson({ path: "/decode", body: { ids: [...ids].map((id) => [id]), skip_special_tokens: false } }, signal) : [];
  return { inputs, shared, words: new Map([...ids].map((id, i) => [id, names[i].trim() || "∅"])) };
}

export default function Sparse({ model }) {
  const [state, update] = useUrlState("sparse", DEFAULTS);
  const apart = model?.outputs.includes("sparse_query"); // whether queries have different vectors
  const titles = apart ? ["Query", "Document"] : ["Text", "Another text"];
  const given = [[state.first, "query"], [state.second, "document"]].filter(([text]) => text.trim());
  const texts = given.map(([text]) => text), roles = given.map(([, role]) => apart && role);
  const result = useLoad((signal) => (texts.length ? compare(texts, roles, signal) : null), [state.first, state.second]);
  const data = texts.length > 0 && result.data;
  return html`
    <p class="lead">A sparse vector has weights for some words of the vocabulary: words of the text, and related words that the model adds, which have
      a dashed frame. The score of two texts is the sum of the products of the weights of their shared words.</p>
    <div class="columns">
      <${TextArea} label=${titles[0]} value=${state.first} onInput=${(first) => update({ first })} />
      <${TextArea} label=${`${titles[1]} (optional)`} value=${state.second} onInput=${(second) => update({ second })} />
    </div>
    <div class="controls"><${Slider} label="Words shown" value=${state.shown} min=${5} max=${MOST} step=${5} onInput=${(shown) => update({ shown })} /></div>
    <${Status} ...${result} />
    <${Results} stale=${result.error}>
      ${!texts.length && html`<p class="hint">Type a text to see the weights of its words.</p>`}
      ${data && html`<${Truncated} count=${data.inputs.filter((input) => input.truncated).length} />
        <div class="columns">${data.inputs.map((input, i) => html`<${Words} key=${i} input=${input} words=${data.words} shown=${state.shown}
          title=${data.inputs.length > 1 ? titles[i] : state.first.trim() ? titles[0] : titles[1]} />`)}</div>
        ${data.inputs.length > 1 && html`<${Shared} shared=${data.shared} words=${data.words} shown=${state.shown} />`}
        <${CopyButtons} requests=${apart ? texts.map((text, i) => sparseRequest(text, roles[i])) : [sparseRequest(texts)]} />`}
    <//>`;
}

/** A text coloured by its words' weights, the added words, and the largest weights. */
function Words({ title, input: { text, tokens, weights }, words, shown }) {
  const own = new Set(tokens.map((token) => token.id)), largest = [...weights].slice(0, shown), high = largest[0]?.[1] || 1;
  const color = colorScale(0, high, false), style = (weight) => ({ background: css(color(weight)), color: textOn(color(weight)) });
  const added = largest.filter(([id]) => !own.has(id));
  return html`<section><h2>${title}: ${weights.size} words with a weight</h2>
    <p class="reading">${tokens.map((token, i) => {
      const weight = weights.get(token.id), gap = text.slice(i ? tokens[i - 1].stop_char : 0, token.start_char), part = text.slice(token.start_char, token.stop_char);
      return html`${gap}${weight ? html`<span class="sentence" title=${weight.toFixed(3)} style=${style(weight)}>${part}</span>` : part}`;
    })}</p>
    ${added.length > 0 && html`<p class="reading">Added by the model: ${added.map(([id, weight]) => html`
      <span class="sentence added" title=${weight.toFixed(3)} style=${style(weight)}>${words.get(id)}</span> `)}</p>`}
    <${ColorBar} low=${0} high=${high} />
    <${Bars} label=${`${title}: largest weights`} items=${largest.map(([id, value]) => ({ name: words.get(id), value, added: !own.has(id) }))} high=${high} />
    ${weights.size > shown && html`<p class="hint">${weights.size - shown} smaller weights</p>`}
  </section>`;
}

function Shared({ shared, words, shown }) {
  const score = shared.reduce((sum, { product }) => sum + product, 0), count = shared.length;
  const items = shared.slice(0, shown).map(({ id, weights, product }) => ({
    name: words.get(id), value: product, note: `${weights[0].toFixed(3)} × ${weights[1].toFixed(3)}`,
  }));
  return html`<section><h2>Words of both texts</h2>
    <p class="finding">Dot product <b>${score.toFixed(3)}</b>, from ${count === 1 ? "one word" : `${count} words`} of both texts.</p>
    <${Bars} label="Products of the weights of shared words" items=${items} high=${shared[0]?.product} /></section>`;
}
