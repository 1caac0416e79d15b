// The beginning: language and theme first, then the feed, then the page.
import { html, render } from "./lib.js";
import { follow } from "./data.js";
import { connect } from "./feed.js";
import { listen } from "./keys.js";
import { speak } from "./strings.js";
import { watch } from "./notify.js";
import { wear } from "./theme.js";
import { Frame } from "./frame.js";

wear();
await speak();
follow();
connect();
listen();
watch();
render(html`<${Frame} />`, /** @type {Element} */ (document.getElementById("page")));
