// CURVE options from a folder of `hearth keys` (docs/protocol.md, "Keys").
"use strict";

const fs = require("node:fs");
const path = require("node:path");

const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";
const Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/** The 32 bytes of a key that is written as a word, `client:...` or `rig:...`. */
function readWord(word) {
  let bits = 0n;
  for (const letter of word.split(":")[1]) bits = (bits << 5n) | BigInt(BASE32.indexOf(letter));
  return Buffer.from(bits.toString(16).padStart(70, "0"), "hex").subarray(0, 32); // 3 bytes of check follow
}

/** Z85 (ZeroMQ RFC 32), the form that the binding takes. */
function z85(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 4) {
    const value = bytes.readUInt32BE(at);
    for (let power = 85 ** 4; power >= 1; power /= 85) text += Z85[Math.floor(value / power) % 85];
  }
  return text;
}

/** Options for a socket: the client's own pair, and the key of the rig that it trusts. */
function curveOptions(folder) {
  const all = (part) =>
    fs
      .readdirSync(path.join(folder, part))
      .filter((name) => name.endsWith(".json"))
      .map((name) => JSON.parse(fs.readFileSync(path.join(folder, part, name), "utf8")));
  const own = all("own").find((key) => key.public.startsWith("client:"));
  const rig = all("allowed").find((key) => key.public.startsWith("rig:"));
  if (!own || !rig) throw new Error(`${folder} needs a client's own key and a rig's: hearth keys make, hearth keys allow`);
  return {
    curvePublicKey: z85(readWord(own.public)),
    curveSecretKey: z85(Buffer.from(own.secret, "hex")),
    curveServerKey: z85(readWord(rig.public)),
  };
}

module.exports = { curveOptions };
