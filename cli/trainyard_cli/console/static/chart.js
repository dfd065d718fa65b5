// Charts of series that grow: raw values as a shadow, the smoothed line over it, gaps shaded.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { html } from "./html.js";
import { duration, moment, number, time } from "./format.js";

// An average that forgets: the weight of the past is `weight`, corrected for its beginning.
export function smoothed(values, weight) {
  if (!weight) return values;
  let last = 0;
  let power = 1;
  return values.map((value) => {
    // null: a hole. undefined: this series has no value here, and its line goes on.
    if (value == null) return value;
    last = last * weight + value * (1 - weight);
    power *= weight;
    return last / (1 - power);
  });
}

// As the theme has it now: a canvas knows no custom properties.
function color(name) {
  const probe = document.getElementById("probe");
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

export function moments(_, splits) {
  const days = splits.at(-1) - splits[0] > 86400;
  const length = splits[1] - splits[0] < 60 ? 8 : 5; // with seconds, if they tell two apart
  return splits.map((one) =>
    days ? moment(one * 1000).slice(5, 16) : time(one * 1000).slice(0, length),
  );
}

// `bands`: [from, to, words] on the x axis, of times in which nothing was trained.
function shade(bands) {
  return (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = color("--band");
    for (const [from, to] of bands) {
      const left = plot.valToPos(from, "x", true);
      const right = plot.valToPos(to, "x", true);
      ctx.fillRect(left, bbox.top, Math.max(2 * devicePixelRatio, right - left), bbox.height);
    }
    ctx.restore();
  };
}

function options({ series, log, byTime, bands, width, height, group }) {
  const axis = {
    stroke: color("--quiet"),
    font: "11px system-ui",
    grid: { stroke: color("--line"), width: 1 },
    ticks: { show: false },
  };
  const lines = series.flatMap(({ hue, weight }) => [
    { stroke: color(hue), width: 1, alpha: weight ? 0.28 : 1, points: { show: false } },
    ...(weight ? [{ stroke: color(hue), width: 1.75, points: { show: false } }] : []),
  ]);
  return {
    width,
    height,
    legend: { show: false },
    cursor: { sync: { key: group }, drag: { x: true, y: false }, points: { size: 5 } },
    scales: { x: { time: byTime }, y: { distr: log ? 3 : 1 } },
    axes: [
      { ...axis, values: byTime ? moments : (_, all) => all.map((one) => number(one)) },
      { ...axis, size: 58, values: (_, all) => all.map((one) => (one == null ? "" : number(one))) },
    ],
    series: [{}, ...lines],
    hooks: { drawClear: [shade(bands)] },
  };
}

// `series`: [{label, hue, values}] over `x`. The table says the same to who cannot see the chart.
export function Chart({ title, unit, x, series, bands = [], weight = 0, log, byTime, group }) {
  const box = useRef();
  const plot = useRef();
  const [at, look] = useState(null);
  const [table, showTable] = useState(false);
  const drawn = series.map((one) => ({ ...one, weight }));
  // Not anew for each move of the cursor.
  const data = useMemo(() => [x, ...drawn.flatMap(({ values }) =>
    (weight ? [values, smoothed(values, weight)] : [values]).map((column) =>
      log ? column.map((value) => (value > 0 ? value : null)) : column,
    ),
  )], [x, weight, log, ...series.map((one) => one.values)]);
  const newest = useRef();
  const shown = useRef();
  newest.current = data;
  const key = JSON.stringify([log, byTime, Boolean(weight), drawn.map((one) => one.hue), bands]);
  useEffect(() => {
    if (table || !box.current) return undefined;
    const make = () => {
      plot.current?.destroy();
      const width = box.current.clientWidth;
      const made = options({ series: drawn, log, byTime, bands, width, height: 210, group });
      made.hooks.setCursor = [(self) => look(self.cursor.idx ?? null)];
      shown.current = newest.current;
      plot.current = new uPlot(made, shown.current, box.current);
    };
    make();
    const sized = new ResizeObserver(() => {
      const width = box.current?.clientWidth;
      if (width && plot.current?.width !== width) plot.current.setSize({ width, height: 210 });
    });
    sized.observe(box.current);
    document.addEventListener("theme", make);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", make);
    return () => {
      sized.disconnect();
      document.removeEventListener("theme", make);
      dark.removeEventListener("change", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [key, table]);
  useEffect(() => {
    if (shown.current === data) return;
    shown.current = data;
    plot.current?.setData(data, true);
  }, [data]);
  const index = at ?? lastIndex(series);
  const where = index == null ? "" : byTime ? time(x[index] * 1000) : `step ${number(x[index])}`;
  return html`<figure class="chart">
    <figcaption><h2>${title}${unit && html`<small> ${unit}</small>`}</h2>
      <span class="values">
        ${where && html`<span class="quiet">${where}</span>`}
        ${series.map((one) => html`<span class="key"><i class=${one.hue.slice(2)}></i>
          ${one.label && html`${one.label} `}<b>${number(valueAt(one.values, index))}</b></span>`)}
      </span>
      <button type="button" class="small" aria-pressed=${table}
        onClick=${() => showTable(!table)}>Table</button>
    </figcaption>
    ${table
      ? html`<${Table} x=${x} series=${series} byTime=${byTime} title=${title} />`
      : html`<div class="plot" ref=${box} role="img" aria-label=${words(title, x, series)}></div>`}
    ${bands.length > 0 && html`<p class="quiet note"><i class="bandkey"></i>
      ${bands.length === 1 ? "1 recovery" : `${bands.length} recoveries`}, in all ${duration(
        bands.reduce((sum, [from, to]) => sum + to - from, 0),
      )}</p>`}
  </figure>`;
}

// The newest value up to there, unless there is a hole.
function valueAt(values, index) {
  let at = index;
  while (at > 0 && values[at] === undefined) at -= 1;
  return values[at];
}

function lastIndex(series) {
  for (let index = (series[0]?.values.length ?? 0) - 1; index >= 0; index -= 1) {
    if (series.some((one) => one.values[index] != null)) return index;
  }
  return null;
}

function words(title, x, series) {
  const said = series.map(({ label, values }) => {
    const known = values.filter((value) => value != null);
    if (!known.length) return `${label || "no"} values`;
    return `${label || ""} from ${number(known[0])} to ${number(known.at(-1))}`;
  });
  const many = `${title}: ${x.length} points, ${said.join("; ")}.`;
  return `${many} The button Table shows them as a table.`;
}

const mostRows = 500;
function Table({ x, series, byTime, title }) {
  const rows = x.map((at, index) => [at, ...series.map((one) => one.values[index])]);
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`${title} as a table`}>
    <table><thead><tr><th>${byTime ? "Time" : "Step"}</th>
      ${series.map((one) => html`<th class="number">${one.label || title}</th>`)}</tr></thead>
    <tbody>${rows.slice(-mostRows).reverse().map(([at, ...values]) => html`<tr>
      <td>${byTime ? moment(at * 1000) : number(at)}</td>
      ${values.map((value) => html`<td class="number">${number(value)}</td>`)}</tr>`)}</tbody>
    </table></div>`;
}
