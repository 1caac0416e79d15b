// Charts: stacked bars and lines, drawn by uPlot with the colours of the sheet.
import { html, useEffect, useRef } from "./lib.js";
import { uPlot } from "./chart-lib.js";
import { language } from "./strings.js";
import { theme } from "./theme.js";

/** @typedef {{name: string, shade: string, values: (number | null)[]}} Shape */
/** @typedef {{text: string, at: number}} Note what stands at the end of a line, at this height */
/**
 * @typedef {object} ChartProps
 * @property {"bars" | "lines"} kind bars are stacked, the first series at the bottom; of lines, the first is the upper one
 * @property {string} label what it shows, for those who do not see it
 * @property {string[]} places the texts below the x axis
 * @property {Shape[]} series
 * @property {(value: number) => string} format of the y axis
 * @property {number} [height]
 * @property {string | null} [only] the series that stands out
 * @property {Note[]} [notes]
 * @property {(at: number | null) => void} [onPoint] which place the pointer is at
 */

const HEIGHT = 268;
const STEPS = [1, 2, 3, 7, 14, 28, 56, 112];
const dark = matchMedia("(prefers-color-scheme: dark)");

/** The colour that a class has here, as the canvas needs it.  @param {HTMLElement} node */
function palette(node) {
  const probe = document.createElement("i");
  probe.className = "probe";
  node.append(probe);
  const read = (/** @type {string} */ colour) => {
    probe.style.color = colour;
    return getComputedStyle(probe).color;
  };
  const of = (/** @type {string} */ shade) => {
    probe.className = `probe ${shade}`;
    const colour = read("var(--c)");
    const pale = read("color-mix(in srgb, var(--c) 22%, var(--bg))");
    probe.className = "probe";
    return { colour, pale };
  };
  const found = { of, bg: read("var(--bg)"), line: read("var(--line)"), base: read("var(--line-ctl)"), ink: read("var(--ink)"), dim: read("var(--ink-3)"), area: read("color-mix(in srgb, var(--resume) 14%, transparent)") };
  return { ...found, end: () => probe.remove() };
}

/** Running sums from the bottom up. Where nothing is, nothing is drawn.  @param {Shape[]} series */
function stacked(series) {
  const sums = series[0]?.values.map(() => 0) ?? [];
  const whole = sums.map((_, at) => series.some((each) => each.values[at]));
  return series.map((each) => each.values.map((value, at) => {
    sums[at] = (sums[at] ?? 0) + (value ?? 0);
    return whole[at] ? sums[at] : null;
  }));
}

/** uPlot draws the first series first: the top of the stack, which the others then cover up to their own height.
 * @param {ChartProps} props */
function dataOf({ kind, places, series }) {
  const values = kind === "bars" ? stacked(series).reverse() : series.map((each) => each.values);
  return [places.map((_, at) => at), ...values];
}

/** @param {ChartProps} props */
const orderOf = ({ kind, series }) => (kind === "bars" ? [...series].reverse() : series);

class Drawing {
  /** @param {HTMLElement} node @param {ChartProps} props */
  constructor(node, props) {
    this.node = node;
    this.props = props;
    this.colours = palette(node);
    this.shown = { ...this.colours, shades: this.shades() };
    this.plot = new uPlot(this.options(), dataOf(props), node);
    this.colours.end();
  }

  shades() {
    return new Map(this.props.series.map((each) => [each.name, this.colours.of(each.shade)]));
  }

  /** Whether the same drawing can show this.  @param {ChartProps} props */
  fits(props) {
    const names = (/** @type {ChartProps} */ each) => each.series.map(({ name, shade }) => `${name} ${shade}`).join("\t");
    return props.kind === this.props.kind && names(props) === names(this.props);
  }

  /** @param {ChartProps} props */
  show(props) {
    const same = JSON.stringify(dataOf(props)) === JSON.stringify(dataOf(this.props));
    this.props = props;
    if (same) this.plot.redraw(false, true);
    else this.plot.setData(dataOf(props));
  }

  repaint() {
    this.colours = palette(this.node);
    this.shown = { ...this.colours, shades: this.shades() };
    this.colours.end();
    this.plot.redraw(false, true);
  }

  /** @param {string} name */
  fill(name) {
    const shade = this.shown.shades.get(name);
    const { only } = this.props;
    return only == null || only === name ? shade?.colour : shade?.pale;
  }

  size() {
    return { width: Math.max(120, this.node.clientWidth), height: this.props.height ?? HEIGHT };
  }

  /** Room on the right for the names of lines. */
  margin() {
    const notes = this.props.notes ?? [];
    const pen = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
    pen.font = this.font(1);
    return Math.max(12, ...notes.map((each) => Math.ceil(pen.measureText(each.text).width) + 8));
  }

  /** @param {number} ratio */
  font(ratio) {
    return `${11 * ratio}px ${getComputedStyle(this.node).fontFamily}`;
  }

  options() {
    const { kind } = this.props;
    const font = this.font(1);
    const dim = () => this.shown.dim;
    const bars = kind === "bars" ? uPlot.paths.bars({ size: [0.8, 34], align: 0 }) : undefined;
    return {
      ...this.size(),
      padding: [10, () => this.margin(), 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, move: (/** @type {any} */ plot, /** @type {number} */ left, /** @type {number} */ top) => (left < 0 ? [left, top] : [plot.valToPos(Math.max(0, Math.min(this.props.places.length - 1, Math.round(plot.posToVal(left, "x")))), "x"), top]) },
      scales: {
        x: { time: false, range: () => [-0.5, this.props.places.length - 0.5] },
        y: { range: (/** @type {unknown} */ _plot, /** @type {number} */ _least, /** @type {number} */ most) => [0, most > 0 ? 1.06 * most : 1] },
      },
      axes: [
        { stroke: dim, font, grid: { show: false }, ticks: { show: false }, border: { show: true, stroke: () => this.shown.base, width: 1 }, gap: 6, size: 26, space: 62, incrs: STEPS,
          values: (/** @type {unknown} */ _plot, /** @type {number[]} */ splits) => splits.map((at) => this.props.places[at] ?? "") },
        { stroke: dim, font, grid: { stroke: () => this.shown.line, width: 1 }, ticks: { show: false }, gap: 8, size: 52, space: 46,
          values: (/** @type {unknown} */ _plot, /** @type {number[]} */ splits) => splits.map((each) => this.props.format(each)) },
      ],
      series: [{}, ...orderOf(this.props).map((each, at) => ({
        points: { show: false },
        ...(bars
          ? { paths: bars, fill: () => this.fill(each.name), stroke: () => this.shown.bg, width: 1 }
          : { stroke: () => this.fill(each.name), width: at ? 1.75 : 1.5, dash: at ? undefined : [4, 3] }),
      }))],
      bands: kind === "lines" ? [{ series: [1, 2], fill: () => this.shown.area }] : [],
      hooks: {
        setCursor: [(/** @type {any} */ plot) => this.props.onPoint?.(plot.cursor.left < 0 ? null : (plot.cursor.idx ?? null))],
        draw: [(/** @type {any} */ plot) => this.write(plot)],
      },
    };
  }

  /** The names of lines, at their ends, apart from each other.  @param {any} plot */
  write(plot) {
    const notes = this.props.notes ?? [];
    if (!notes.length) return;
    const ratio = plot.pxRatio ?? devicePixelRatio;
    const { ctx, bbox } = plot;
    const least = 15 * ratio;
    const heights = notes.map((each) => plot.valToPos(each.at, "y", true));
    for (let at = 1; at < heights.length; at += 1) heights[at] = Math.max(heights[at], heights[at - 1] + least);
    ctx.save();
    ctx.font = this.font(ratio);
    ctx.fillStyle = this.shown.ink;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    notes.forEach((each, at) => ctx.fillText(each.text, bbox.left + bbox.width + 2 * ratio, heights[at]));
    ctx.restore();
  }
}

/** @param {ChartProps} props */
export function Chart(props) {
  const host = useRef(/** @type {HTMLDivElement | null} */ (null));
  const drawing = useRef(/** @type {Drawing | null} */ (null));
  const spoken = language.value;
  useEffect(() => {
    const node = host.current;
    if (!node) return;
    if (drawing.current?.fits(props)) drawing.current.show(props);
    else {
      drawing.current?.plot.destroy();
      drawing.current = new Drawing(node, props);
    }
  }, [props.kind, props.series, props.places, props.only, props.notes, spoken]);
  useEffect(() => {
    const sizes = new ResizeObserver(() => drawing.current?.plot.setSize(drawing.current.size()));
    if (host.current) sizes.observe(host.current);
    const repaint = () => drawing.current?.repaint();
    dark.addEventListener("change", repaint);
    const stop = theme.subscribe(() => queueMicrotask(repaint));
    return () => {
      sizes.disconnect();
      dark.removeEventListener("change", repaint);
      stop();
      drawing.current?.plot.destroy();
      drawing.current = null;
    };
  }, []);
  return html`<div class="chart" role="img" aria-label=${props.label} ref=${host}></div>`;
}
