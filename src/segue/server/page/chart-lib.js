// The library for charts, loaded with the view that needs it.
export { default as uPlot } from "./vendor/uplot.js";
