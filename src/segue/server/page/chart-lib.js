// The library for charts and its styles, loaded with the view that needs them.
export { default as uPlot } from "./vendor/uplot.js";

const styles = document.createElement("link");
styles.rel = "stylesheet";
styles.href = new URL("./vendor/uplot.css", import.meta.url).href;
document.head.append(styles);
