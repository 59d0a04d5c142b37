// Reads the live stream of a Hearth rig and prints one JSON line per message (docs/protocol.md).
//
//   npm ci && node subscriber.js tcp://127.0.0.1:5771 doa,foa24 [number of messages]
//
// Needs nothing of Hearth: ZeroMQ and MessagePack are the whole interface. Where the rig asks for keys, set
// HEARTH_KEYS to a folder of `hearth keys`.
"use strict";

const zmq = require("zeromq");
const { decode } = require("@msgpack/msgpack");
const { curveOptions } = require("./keys.js");

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  bool: Uint8Array,
};

/** Header and payload of the three parts of a message; times and epochs are BigInt, because they pass 2^53. */
function readMessage([topic, header, payload]) {
  const h = decode(header, { useBigInt64: true });
  if (h.v !== 1) throw new Error(`protocol version ${h.v}, this program speaks 1`);
  let array = null;
  if (h.encoding === "raw") {
    // A typed array needs an aligned start, which a received buffer does not promise: copy.
    const bytes = Uint8Array.from(payload);
    array = new ARRAYS[h.dtype](bytes.buffer);
  }
  return { name: topic.toString("latin1").split("\0")[0], header: h, payload, array };
}

function toLine({ header, payload, array }) {
  const line = { ...header, bytes: payload.length };
  if (array !== null) line.first = Array.from(array.subarray(0, 8));
  return JSON.stringify(line, (_, value) => (typeof value === "bigint" ? value.toString() : value));
}

async function main() {
  const [address, streams = "doa", count = "Infinity"] = process.argv.slice(2);
  if (!address) {
    console.error("usage: node subscriber.js tcp://127.0.0.1:5771 [doa,foa24,video] [number of messages]");
    process.exit(2);
  }
  const names = streams.split(",");
  const keys = process.env.HEARTH_KEYS ? curveOptions(process.env.HEARTH_KEYS) : {};
  const socket = new zmq.Subscriber({ receiveHighWaterMark: 8000, ...keys });
  for (const name of names) if (name !== "video") socket.subscribe(name + "\0");
  socket.subscribe("beat\0"); // once a second: alive, and where pictures are
  // A refused key shows nowhere else: without this, it looks like a rig that is off.
  socket.events.on("handshake:error:auth", () => {
    console.error("the rig refuses this client's key: `hearth keys allow` it there");
    process.exit(1);
  });
  socket.connect(address);

  let left = Number(count);
  let pictures = null;
  let picturesAt = null;
  const print = (message) => {
    if (left <= 0) return;
    console.log(toLine(message));
    left -= 1;
    if (left <= 0) close();
  };
  const close = () => {
    clearInterval(watch);
    socket.close();
    if (pictures) pictures.close();
  };
  // Once a second the rig says that it lives; without that for 3 s it was stopped, killed or cut off.
  let heard = Date.now();
  let told = false;
  const watch = setInterval(() => {
    if (Date.now() - heard > 3000 && !told) console.error("no heartbeat for 3 s: the rig is stopped or gone");
    told = Date.now() - heard > 3000;
  }, 250);
  const follow = async (subscriber) => {
    for await (const parts of subscriber) print(readMessage(parts));
  };
  for await (const parts of socket) {
    const message = readMessage(parts);
    if (message.name !== "beat") {
      print(message);
      continue;
    }
    heard = Date.now();
    if (message.header.data.closing) {
      close();
    } else if (names.includes("video") && message.header.data.latest_address !== picturesAt) {
      // Only the newest picture matters: they have their own socket, with a short queue.
      if (pictures) pictures.close();
      picturesAt = message.header.data.latest_address;
      pictures = new zmq.Subscriber({ receiveHighWaterMark: 2, ...keys });
      pictures.subscribe("video\0");
      // Of what the rig announces only the port counts: it cannot know by which host we reach it.
      pictures.connect(address.replace(/\d+$/, "") + picturesAt.match(/\d+$/)[0]);
      follow(pictures);
    }
  }
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
