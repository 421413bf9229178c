// How values are written: each form has one way, on the page and in the report.
"use strict";

const Forms = (() => {
  const NONE = "–";
  const SUPERSCRIPT = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

  const BYTES = ["B", "kB", "MB", "GB", "TB"];

  const significant = (value, digits) => String(Number(value.toPrecision(digits)));
  const power = (exponent) => [...String(exponent)].map((character) => SUPERSCRIPT[character]).join("");
  const grouped = (value) => Math.round(value).toLocaleString("en-US");

  function scaled(value, units, step) {
    let place = 0;
    while (Math.abs(value) >= step && place < units.length - 1) { value /= step; place += 1; }
    return `${place === 0 ? grouped(value) : value.toPrecision(3)} ${units[place]}`;
  }

  function seconds(value) {
    if (value === 0) return "0 s";
    if (value < 0.0995) return `${significant(value * 1000, 2)} ms`;
    return value < 1000 ? `${value < 10 ? value.toFixed(2) : value.toFixed(1)} s` : `${grouped(value)} s`;
  }

  function small(value) {
    if (value === 0) return "0";
    const [digits, exponent] = value.toExponential(2).split("e");
    return Math.abs(value) >= 0.01 && Math.abs(value) < 1000 ? significant(value, 3) : `${digits} × 10${power(Number(exponent))}`;
  }

  const FORMS = {
    count: grouped,
    seconds,
    bytes: (value) => scaled(value, BYTES, 1000),
    figure: (value) => significant(value, 6),
    small,
    share: (value) => `${(100 * value).toFixed(2)} %`,
    mib: (value) => `${grouped(value)} MiB`,
    time: (value) => `${new Date(1000 * value).toISOString().slice(0, 19).replace("T", " ")} UTC`,
  };

  function text(value, form) {
    if (value === null || value === undefined) return NONE;
    return typeof value === "number" && FORMS[form] ? FORMS[form](value) : String(value);
  }

  // As short as the mark of an axis should be. Without a form: for a logarithmic axis.
  function tick(value, form) {
    if (form === "share") return `${significant(100 * value, 4)} %`;
    if (form === "seconds") return `${significant(value, 4)} s`;
    if (form === "bytes") {
      const place = value < 1000 ? 0 : Math.min(Math.floor(Math.log10(value) / 3), 4);
      return `${significant(value / 1000 ** place, 4)} ${BYTES[place]}`;
    }
    const exponent = Math.floor(Math.log10(value) + 1e-9), factor = Math.round(value / 10 ** exponent);
    if (exponent >= -3 && exponent < 4) return significant(value, 3);
    return factor === 1 ? `10${power(exponent)}` : `${factor}·10${power(exponent)}`;
  }

  return { text, tick, isNumber: (form) => form !== "text" };
})();
