// placeholder until the lineage is written
import { html } from "./lib.js";
export const LineageList = () => html``;
