"""Reads the direction of sound from a running rig: plain pyzmq and MessagePack, nothing of Hearth.

Start `hearth live`, then `python examples/subscriber.py [tcp://127.0.0.1:5771]`. It ends with the rig.
"""

import sys

import msgspec
import zmq

socket = zmq.Context().socket(zmq.SUB)
socket.setsockopt(zmq.SUBSCRIBE, b"doa\0")
socket.setsockopt(zmq.SUBSCRIBE, b"beat\0")
socket.connect(sys.argv[1] if len(sys.argv) > 1 else "tcp://127.0.0.1:5771")
while True:
    topic, header, payload = socket.recv_multipart()
    h = msgspec.msgpack.decode(header)
    d = h["data"]
    if h["stream"] == "beat":
        if d["closing"]:
            break
    elif d["active"]:
        print(f"{h['t_ns'] / 1e9:9.1f} s {d['azimuth_deg']:7.1f} deg {d['confidence']:5.2f}", flush=True)
