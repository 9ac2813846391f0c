// Colour scales: viridis for amounts, blue to red around zero for signed numbers.
const VIRIDIS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];
const SIGNED = { // ColorBrewer's RdBu; in the dark theme zero is the background, and larger numbers are brighter and more saturated
  light: [[5, 48, 97], [67, 147, 195], [209, 229, 240], [247, 247, 247], [253, 219, 199], [214, 96, 77], [103, 0, 31]],
  dark: [[60, 170, 255], [45, 110, 180], [32, 66, 105], [28, 32, 38], [105, 36, 38], [180, 48, 43], [255, 80, 60]],
};
/** Okabe and Ito's palette, which is safe for colour blindness, without its grey. */
export const CATEGORIES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b8a800"];

export const isDark = () => {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

function between(stops, fraction) {
  const place = Math.min(Math.max(fraction, 0), 1) * (stops.length - 1);
  const first = Math.min(Math.floor(place), stops.length - 2);
  return stops[first].map((channel, i) => Math.round(channel + (stops[first + 1][i] - channel) * (place - first)));
}

/** Scale of [low, high]; signed: symmetric around 0. Returns value → [red, green, blue]. */
export function colorScale(low, high, signed) {
  if (!signed) return (value) => between(VIRIDIS, (value - low) / (high - low || 1));
  const stops = SIGNED[isDark() ? "dark" : "light"];
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  return (value) => between(stops, 0.5 + value / (2 * most));
}

export const css = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;

/** Black or white, for the higher contrast on a colour (WCAG's relative luminance). */
export function textOn(color) {
  const [red, green, blue] = color.map((channel) => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000" : "#fff";
}
