// Line charts.
import { html, useRef, useState } from "./vendor/htm-preact.js";
import { short, useWidth } from "./parts.js";

const HEIGHT = 190, BASE = 166, TOP = 10, LEFT = 50, RIGHT = 10, LABELS = 46; // CSS pixels; LABELS: width of the labels next to the lines
const TICKS = 6; // approximate number of ticks, which are round numbers

const isNumber = (value) => value !== null && Number.isFinite(value);

/** The step between ticks: 1, 2 or 5 times a power of ten, about TICKS of which fit into a range. */
function roundStep(range) {
  const least = range / TICKS || 1, power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].find((digit) => digit * power >= least * 0.999) * power;
}

/** Round numbers from at or below `low` to at or above `high`. */
function ticksBetween(low, high) {
  const step = roundStep(high - low), first = Math.floor(low / step + 1e-9), last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: Math.max(last - first, 1) + 1 }, (_, i) => (first + i) * step);
}

/**
 * Lines {name, values} over one axis, as SVG with a legend; values can be null. help: how to read it.
 * mark: a position on the axis to emphasise. labelled: whether the names are also next to the lines' ends.
 * The pointer, or the arrow keys when the chart has the focus, select a position, whose values are shown below.
 */
export function LineChart({ lines, title, help, xName, xLabel = (i) => i, low, high, mark, labelled }) {
  const frame = useRef(), width = useWidth(frame, 480);
  const [cursor, setCursor] = useState(null);
  const values = lines.flatMap((line) => line.values).filter(isNumber);
  const ticks = ticksBetween(low ?? Math.min(...values), high ?? Math.max(...values)), bottom = ticks[0], top = ticks.at(-1);
  const count = Math.max(...lines.map((line) => line.values.length)), end = width - (labelled ? LABELS : RIGHT);
  const x = (i) => LEFT + (i / Math.max(count - 1, 1)) * (end - LEFT);
  const y = (value) => BASE - ((value - bottom) / (top - bottom)) * (BASE - TOP);
  const path = (line) => line.values.map((value, i) => [value, i]).filter(([value]) => isNumber(value))
    .map(([value, i], order) => `${order ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const choose = (i) => setCursor(Math.min(Math.max(i, 0), count - 1));
  const point = (event) => choose(Math.round(((event.clientX - frame.current.getBoundingClientRect().left - LEFT) / (end - LEFT)) * (count - 1)));
  const key = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    choose(cursor === null ? 0 : cursor + step);
  };
  const place = cursor !== null && cursor < count ? cursor : null;
  const said = (line) => (isNumber(line.values[place]) ? short(line.values[place]) : "–");
  const range = (line) => { const known = line.values.filter(isNumber); return known.length ? `from ${short(known[0])} to ${short(known.at(-1))}` : "none"; };
  const dots = (i, name) => html`<line x1=${x(i)} x2=${x(i)} y1=${TOP} y2=${BASE} class=${name} />
    ${lines.map((line, k) => isNumber(line.values[i]) && html`<circle cx=${x(i)} cy=${y(line.values[i])} r="3.5" class="dot line-${k % 8}" />`)}`;
  return html`<figure class="chart" ref=${frame}>
    <figcaption>${title}</figcaption>
    <svg viewBox="0 0 ${width} ${HEIGHT}" height=${HEIGHT} tabindex="0" role="img" aria-label=${`${title}. ${lines.map((line) => `${line.name}: ${range(line)}`).join("; ")}`}
      onPointerMove=${point} onPointerDown=${point} onPointerLeave=${(event) => event.pointerType === "mouse" && setCursor(null)} onBlur=${() => setCursor(null)} onKeyDown=${key}>
      ${ticks.map((tick) => html`<line x1=${LEFT} x2=${end} y1=${y(tick)} y2=${y(tick)} class="grid" />
        <text x=${LEFT - 6} y=${y(tick) + 4} text-anchor="end">${short(tick)}</text>`)}
      ${lines.map((line, k) => html`<path d=${path(line)} class="line line-${k % 8}" />`)}
      ${labelled && endLabels(lines, y).map(([name, height]) => html`<text x=${end + 5} y=${height + 4}>${name}</text>`)}
      ${isNumber(mark) && dots(mark, "mark")}
      ${place !== null && dots(place, "cursor")}
      <text x=${LEFT} y=${HEIGHT - 6}>${xLabel(0)}</text>
      <text x=${end} y=${HEIGHT - 6} text-anchor="end">${xLabel(count - 1)}</text>
      <text x=${(LEFT + end) / 2} y=${HEIGHT - 6} text-anchor="middle">${xName}</text>
    </svg>
    <p class="values" role="status">${place === null ? "" : `${xName && `${xName} `}${xLabel(place)}${lines.length > 1 ? "" : `: ${said(lines[0])}`}`}</p>
    ${lines.length > 1 && html`<ul class="legend">${lines.map((line, k) => html`<li>
      <svg class="key" width="24" height="10" aria-hidden="true"><path d="M0 5H24" class="line line-${k % 8}" /></svg> ${line.name} <b>${place === null ? "" : said(line)}</b></li>`)}</ul>`}
    ${help && html`<p class="help">${help}</p>`}
  </figure>`;
}

/** Names and heights of the lines' ends, except those that would cover an earlier one. */
function endLabels(lines, y) {
  const labels = [];
  for (const { name, values } of lines) {
    const height = y(values.filter(isNumber).at(-1));
    if (labels.every(([, other]) => Math.abs(other - height) >= 12)) labels.push([name.split(",")[0], height]);
  }
  return labels;
}
