/** Light or dark: the system's choice, or the person's. */
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const STORAGE_KEY = "greenroom.theme";

/** Returns the stored theme, or `system`. */
function readStoredTheme(): Theme {
  const value = localStorage.getItem(STORAGE_KEY);
  return value === "light" || value === "dark" ? value : "system";
}

export const theme = signal<Theme>(readStoredTheme());

const system = matchMedia("(prefers-color-scheme: dark)");
export const isDark = signal(false);

/**
 * Applies the theme to the page now and at each change, stores it (`system` removes the stored one), and keeps `isDark`
 * up to date with the theme and the system. It never stops.
 */
export function followTheme(): void {
  effect(() => {
    if (theme.value === "system") {
      localStorage.removeItem(STORAGE_KEY);
      delete document.documentElement.dataset["theme"];
    } else {
      localStorage.setItem(STORAGE_KEY, theme.value);
      document.documentElement.dataset["theme"] = theme.value;
    }
  });
  const update = (): void => {
    isDark.value = theme.value === "dark" || (theme.value === "system" && system.matches);
  };
  effect(update);
  system.addEventListener("change", update);
}
