// Light, dark, or as the system says.
import { signal } from "./lib.js";
import { kept } from "./drafts.js";
import { t } from "./strings.js";

export const theme = signal(kept.read("theme", "system"));

/** @param {string} wanted */
export function wear(wanted = theme.value) {
  theme.value = wanted;
  kept.write("theme", wanted);
  if (wanted === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = wanted;
}

export const themes = ["system", "light", "dark"].map((name) => ({ name, label: () => t(`theme.${name}`), set: () => wear(name) }));
