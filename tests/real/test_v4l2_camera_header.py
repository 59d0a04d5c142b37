"""The structures and request numbers of V4L2 against the kernel's own header, through the C compiler."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from capture import v4l2_ioctl as v4l2

pytestmark = pytest.mark.real

STRUCTS = {
    "v4l2_capability": v4l2.Capability,
    "v4l2_fmtdesc": v4l2.FormatDescription,
    "v4l2_pix_format": v4l2.PixelFormat,
    "v4l2_format": v4l2.Format,
    "v4l2_fract": v4l2.Fraction,
    "v4l2_captureparm": v4l2.CaptureParameters,
    "v4l2_streamparm": v4l2.StreamParameters,
    "v4l2_requestbuffers": v4l2.RequestBuffers,
    "v4l2_buffer": v4l2.Buffer,
}
RENAMED = {("v4l2_pix_format", "encoding"): "ycbcr_enc", ("v4l2_requestbuffers", "reserved"): None}
NUMBERS = {
    **{f"VIDIOC_{name}": getattr(v4l2, name) for name in (
        "QUERYCAP", "ENUM_FMT", "G_FMT", "S_FMT", "REQBUFS", "QUERYBUF", "QBUF", "DQBUF", "STREAMON",
        "STREAMOFF", "G_PARM", "S_PARM",
    )},
    **{f"V4L2_{name}": getattr(v4l2, name) for name in (
        "CAP_VIDEO_CAPTURE", "CAP_VIDEO_CAPTURE_MPLANE", "CAP_STREAMING", "CAP_DEVICE_CAPS",
        "CAP_TIMEPERFRAME", "BUF_TYPE_VIDEO_CAPTURE", "FIELD_ANY", "MEMORY_MMAP", "BUF_FLAG_ERROR",
        "BUF_FLAG_TIMESTAMP_MASK", "BUF_FLAG_TIMESTAMP_MONOTONIC", "BUF_FLAG_TSTAMP_SRC_MASK",
        "BUF_FLAG_TSTAMP_SRC_SOE",
    )},
    "V4L2_PIX_FMT_MJPEG": v4l2.fourcc_code("MJPG"),
    "V4L2_PIX_FMT_YUYV": v4l2.fourcc_code("YUYV"),
}  # fmt: skip


def test_structures_and_numbers_are_the_kernels(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not Path("/usr/include/linux/videodev2.h").exists():
        pytest.skip("no C compiler or no linux/videodev2.h (linux-libc-dev)")
    lines, ours = [], []
    for name, kind in STRUCTS.items():
        lines.append(f'printf("%zu\\n", sizeof(struct {name}));')
        ours.append(ctypes.sizeof(kind))
        for field, *_ in kind._fields_:
            theirs = RENAMED.get((name, field), field)
            if theirs is not None:
                lines.append(f'printf("%zu\\n", offsetof(struct {name}, {theirs}));')
                ours.append(getattr(kind, field).offset)
    for name, value in NUMBERS.items():
        lines.append(f'printf("%lu\\n", (unsigned long)(unsigned int){name});')
        ours.append(value)
    source = tmp_path / "v4l2.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <sys/time.h>\n#include <linux/videodev2.h>\n"
        "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
    )
    subprocess.run([compiler, "-o", str(tmp_path / "v4l2"), str(source)], check=True, timeout=60)
    told = subprocess.run([str(tmp_path / "v4l2")], capture_output=True, text=True, check=True)
    wrong = {
        line: (int(theirs), mine)
        for line, theirs, mine in zip(lines, told.stdout.split(), ours, strict=True)
        if int(theirs) != mine
    }
    assert not wrong
