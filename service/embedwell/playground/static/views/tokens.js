// Tokens of two texts: the tokenization, the vectors after any layer, and their similarity.
import { html, useMemo, useState } from "../vendor/htm-preact.js";
import { floats, sendJson, useLoad } from "../api.js";
import { colorScale, css, textOn } from "../colors.js";
import { Heatmap } from "../heatmap.js";
import { LineChart } from "../line_chart.js";
import { CopyButtons, Results, Select, Slider, Status, TextArea, short } from "../parts.js";
import { useUrlState } from "../url_state.js";
import { cosine, norm } from "../vector_math.js";

const DEFAULTS = {
  first: "They sat on the bank of the river.",
  second: "She opened an account at the bank.",
  input: "", // "", or a part of the input: token, position, segment
  layer: -1, // -1: the last
};
const PARTS = [["", "after a layer"], ["token", "token table"], ["position", "position table"], ["segment", "segment table"]];
const TRACED_TOKENS = 256; // of both texts; more tokens are not traced through all layers

const tokensRequest = (texts, layer) => ({
  path: "/tokens",
  body: { inputs: texts, layer, layout: "block", encoding_format: "base64", on_overflow: "end" },
});

/** All tokens of each text, with a vector for each token that the model reads. */
async function readTokens(texts, layer, signal) {
  const { results, layer: depth } = await sendJson(tokensRequest(texts, layer ?? undefined), signal);
  const inputs = results.map(({ tokens, shape, embeddings, dropped }) => {
    const numbers = floats(embeddings), width = shape[1];
    return { dropped, tokens: tokens.map((token, i) => ({ ...token, vector: numbers.subarray(i * width, (i + 1) * width) })) };
  });
  return { inputs, depth };
}

/** The texts of the tokens that were dropped. */
async function droppedTokens(texts, inputs, signal) {
  const cut = [...inputs.keys()].filter((i) => inputs[i].dropped);
  if (!cut.length) return {};
  const all = await sendJson({ path: "/tokenize", body: { inputs: cut.map((i) => texts[i]), add_special_tokens: false } }, signal);
  return Object.fromEntries(cut.map((i, order) => [i, all[order].slice(-inputs[i].dropped)]));
}

const kindOf = ({ special, in_vocabulary: known }) => (special ? "special" : known ? "text" : "unknown");

/** The longest known word that both inputs have, one in each; else the first token of each. */
function defaultPair([first, second]) {
  const words = (input) => input.tokens.map((token, i) => [token, i]).filter(([token]) => kindOf(token) === "text" && /\p{L}{3}/u.test(token.text));
  if (!second) return [[0, Math.min(1, first.tokens.length - 1)]];
  const longestFirst = words(first).sort(([a], [b]) => b.text.length - a.text.length);
  for (const [token, i] of longestFirst) {
    const match = words(second).find(([other]) => other.id === token.id);
    if (match) return [[0, i], [1, match[1]]];
  }
  return [[0, Math.min(1, first.tokens.length - 1)], [1, Math.min(1, second.tokens.length - 1)]];
}

export default function Tokens({ theme }) {
  const [state, update] = useUrlState("tokens", DEFAULTS);
  const given = [["first text", state.first], ["second text", state.second]].filter(([, text]) => text.trim());
  const texts = given.map(([, text]) => text);
  const layer = state.input || (state.layer < 0 ? null : state.layer);
  const result = useLoad(async (signal) => {
    if (!texts.length) return { inputs: [], dropped: {} };
    const read = await readTokens(texts, layer, signal);
    return { ...read, names: given.map(([name]) => name), dropped: await droppedTokens(texts, read.inputs, signal) };
  }, [state.first, state.second, layer]);
  const answered = Boolean(result.data || result.error); // a model on demand is loaded then, and /info has its layers
  const model = useLoad(async (signal) => answered && (await sendJson({ method: "GET", path: "/info" }, signal)).engine, [answered], 0).data;
  const depth = model ? model.num_layers : undefined;
  const { inputs = [], names } = (texts.length && result.data) || {};
  const [pinned, setPinned] = useState(null);
  const [hovered, setHovered] = useState(null);
  const shape = inputs.map((input) => input.tokens.map((token) => token.id).join()).join(";");
  const pair = useMemo(() => (inputs.length ? defaultPair(inputs) : []), [shape]);
  const exists = ([i, j]) => inputs[i]?.tokens[j];
  const chosen = [hovered, pinned, pair[0]].find((place) => place && exists(place));
  const other = chosen && [hovered && pinned, ...pair].find((place) => place && exists(place) && exists(place) !== exists(chosen));
  const places = [chosen, other].filter(Boolean);
  const tokens = places.map((place) => ({ ...exists(place), name: `“${exists(place).text}”${inputs.length > 1 ? ` (${names[place[0]]})` : ""}` }));
  const requests = [{ path: "/tokens", body: { inputs: texts, ...(layer === null ? {} : { layer }), on_overflow: "end" } }];
  return html`
    <p class="lead">The tokens into which the model splits texts, and their vectors. Point at a token, or reach it by Tab and the arrow keys, to see the cosine of every other
      token with it. Click a token to pin it and compare it with others. Change the layer to see how the vectors of
      the same word differ in two contexts.</p>
    <div class="columns">
      <${TextArea} label="Text" value=${state.first} onInput=${(first) => update({ first })} />
      <${TextArea} label="Another text (optional)" value=${state.second} onInput=${(second) => update({ second })} />
    </div>
    <div class="controls">
      <${Select} label="Vectors" value=${state.input} options=${PARTS} onChange=${(input) => update({ input })} />
      ${!state.input && depth !== undefined && html`<${Slider} label=${state.layer === 0 ? "Layer (0: the input)" : "Layer"}
        value=${state.layer < 0 ? depth : state.layer} max=${depth} onInput=${(value) => update({ layer: value === depth ? -1 : value })} />`}
    </div>
    <${Status} ...${result} />
    <${Results} stale=${result.error}>
      ${!texts.length && html`<p class="hint">Type a text to see its tokens.</p>`}
      ${inputs.map((input, i) => html`<${Chips} key=${i} input=${input} name=${names[i]} place=${i} dropped=${result.data.dropped[i] || []} longest=${model?.max_length}
        token=${tokens[0]} places=${places} setHovered=${setHovered} setPinned=${setPinned} pinned=${pinned} />`)}
      ${tokens.length > 0 && html`<div class="columns">
        <${Details} tokens=${tokens} theme=${theme} />
        ${tokens.length > 1 && !state.input && depth !== undefined && html`<${Trace} texts=${texts} places=${places} tokens=${tokens} depth=${depth} layer=${layer ?? depth}
          size=${inputs.reduce((sum, input) => sum + input.tokens.length, 0)} />`}
      </div>
      <${Table} inputs=${inputs} token=${tokens[0]} />
      <${CopyButtons} requests=${requests} />`}
    <//>`;
}

function Chips({ input, name, place, places, token, dropped, longest, setHovered, setPinned, pinned }) {
  const color = colorScale(-1, 1, true), roles = ["chosen", "other"];
  const [reached, setReached] = useState(0), stop = Math.min(reached, input.tokens.length - 1); // the token that Tab reaches
  const move = (event) => {
    const target = { ArrowRight: stop + 1, ArrowDown: stop + 1, ArrowLeft: stop - 1, ArrowUp: stop - 1, Home: 0, End: input.tokens.length - 1 }[event.key];
    const chip = event.currentTarget.querySelectorAll("button")[target];
    if (target === undefined) return;
    event.preventDefault();
    chip?.focus();
  };
  return html`<div>
    <p class="chips-title">${name[0].toUpperCase()}${name.slice(1)}: ${input.tokens.length}${longest ? ` of at most ${longest}` : ""} tokens</p>
    <div class="chips" role="group" aria-label=${`Tokens of the ${name}: arrow keys move from token to token`} onKeyDown=${move} onPointerLeave=${() => setHovered(null)}>
      ${input.tokens.map((item, j) => {
        const alike = token ? cosine(token.vector, item.vector) : 0, fill = color(alike);
        const isAt = (at) => at && at[0] === place && at[1] === j, isPinned = isAt(pinned);
        return html`<button type="button" class=${`chip ${item.special ? "special" : ""} ${roles[places.findIndex(isAt)] || ""}`} aria-pressed=${isPinned ? "true" : "false"}
          style=${{ background: css(fill), color: textOn(fill) }} title=${describe(item)}
          onPointerEnter=${() => setHovered([place, j])} tabindex=${j === stop ? 0 : -1} onFocus=${() => { setReached(j); setHovered([place, j]); }} onBlur=${() => setHovered(null)}
          onClick=${() => setPinned(isPinned ? null : [place, j])}><bdi>${item.text || "∅"}</bdi><small>${alike.toFixed(2)}</small></button>`;
      })}
      ${dropped.length > 0 && html`<span class="cut">✂ cut off here: the model does not read the last ${dropped.length} tokens</span>
        ${dropped.slice(0, 200).map((item) => html`<span class="chip dropped">${item.text}</span>`)}`}
    </div>
  </div>`;
}

const describe = (token) => {
  const { id, start, stop, start_byte, stop_byte } = token, kind = kindOf(token);
  return `id ${id}${kind === "text" ? "" : `, ${kind}`}${kind === "special" ? "" : `, characters ${start}–${stop}, bytes ${start_byte}–${stop_byte}`}`;
};

function Details({ tokens, theme }) {
  const rows = useMemo(() => tokens.map((item) => Array.from(item.vector)), tokens.map((item) => item.vector));
  const names = tokens.map((item) => item.name);
  return html`<section><h2>“${tokens[0].text}” · ${describe(tokens[0])} · norm ${short(norm(tokens[0].vector))}</h2>
    <${Heatmap} rows=${rows} signed height=${28 * rows.length} theme=${theme} title=${`Vector of ${names.join(" and ")}`}
      rowName="token" columnName="dimension" rowLabel=${(i) => names[i]} />
  </section>`;
}

/** The cosine of two tokens after each layer. */
function Trace({ texts, places, depth, layer, tokens, size }) {
  const traced = size <= TRACED_TOKENS;
  const { data } = useLoad(async (signal) => {
    if (!traced) return null;
    const layers = [];
    for (let i = 0; i <= depth; i++) layers.push((await readTokens(texts, i, signal)).inputs);
    return layers;
  }, [texts.join("\u0000"), depth, traced], 500);
  const [[a, i], [b, j]] = places;
  if (!data?.every((inputs) => inputs[a]?.tokens[i] && inputs[b]?.tokens[j])) return html`<section />`;
  const values = data.map((inputs) => cosine(inputs[a].tokens[i].vector, inputs[b].tokens[j].vector));
  const [first, second] = tokens, names = `${first.name} and ${second.name}`; // unknown words share an id
  const subject = tokens.every((token) => kindOf(token) === "unknown") ? `${names} are both unknown to the model`
    : first.id === second.id ? `The same word “${first.text}”` : names;
  return html`<section>
    <p class="finding">${subject}: cosine <b>${values[0].toFixed(2)}</b> at
      the input, <b>${values.at(-1).toFixed(2)}</b> after layer ${depth}.</p>
    <${LineChart} title=${`Cosine of ${names} after each layer`} xName="layer" mark=${layer}
      lines=${[{ name: "cosine", values }]} low=${Math.min(0, ...values)} high=${1} />
  </section>`;
}

function Table({ inputs, token }) {
  return html`<details><summary>All tokens as a table</summary><div class="scroll"><table>
    <thead><tr>${["text", "id", "token", "kind", "characters", "bytes", "cosine"].map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${inputs.flatMap((input, i) => input.tokens.map((item) => html`<tr>
      <td class="number">${i + 1}</td><td class="number">${item.id}</td><td>${item.text}</td><td>${kindOf(item)}</td>
      <td class="number">${item.special ? "" : `${item.start}–${item.stop}`}</td><td class="number">${item.special ? "" : `${item.start_byte}–${item.stop_byte}`}</td>
      <td class="number">${token ? cosine(token.vector, item.vector).toFixed(3) : ""}</td></tr>`))}</tbody>
  </table></div></details>`;
}
