"""Frames of a video file or an RTSP camera, as JPEG."""

import io
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from producers.sources.item import Item, ItemError, Source
from schemas.records import JPEG

_PROTOCOLS = "file,pipe,rtsp,tcp,udp"
# Play lists (hls, concat, dash) are left out: they make the demuxer open whatever other address they name.
_FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,flv,mpeg,mpegts,mpegvideo,h264,hevc,asf,ogg,mjpeg,rtsp,sdp,rtp"
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")
_MAX_FAULTS_IN_A_ROW = 100


@dataclass(frozen=True)
class VideoOptions:
    """How frames are taken."""

    quality: int = 85
    """JPEG quality, 1 to 95."""
    max_pixels: int = 25_000_000
    """A stream with larger frames is refused before its first frame is decoded."""
    open_timeout_seconds: float = 10.0
    read_timeout_seconds: float = 10.0
    """A camera that is silent for this long ends its stream with an error."""


def read_video(address: str, options: VideoOptions | None = None) -> Source:
    """Yield the frames of a file or an rtsp:// address in order; `media_seconds` is the frame's own time.

    A damaged frame is an ItemError and reading goes on. What ends the stream early is a final ItemError: nothing is
    raised. Only local files and RTSP can be opened.
    """
    import av  # noqa: PLC0415 - a host without cameras need not install it

    options = options or VideoOptions()
    scheme = _SCHEME.match(address)
    if scheme and scheme[1].lower() not in ("file", "rtsp"):
        yield ItemError(0, address, f"{scheme[1]}: only files and rtsp:// addresses are read", final=True)
        return
    try:
        container = av.open(
            address,
            options={"protocol_whitelist": _PROTOCOLS, "format_whitelist": _FORMATS, "rtsp_transport": "tcp"},
            timeout=(options.open_timeout_seconds, options.read_timeout_seconds),
        )
    except (av.FFmpegError, OSError, ValueError) as error:
        yield ItemError(0, address, f"cannot be opened: {error}", final=True)
        return
    with closing(container):
        yield from _read_container(container, address, options)


def _read_container(container: Any, address: str, options: VideoOptions) -> Source:
    if not container.streams.video:
        yield ItemError(0, address, "has no video", final=True)
        return
    stream = container.streams.video[0]
    pixels = stream.codec_context.width * stream.codec_context.height
    if pixels > options.max_pixels:
        yield ItemError(0, address, f"frames of {pixels} pixels; at most {options.max_pixels}", final=True)
        return
    stream.thread_type = "SLICE"
    faults = 0
    for sequence, (frame, fault) in enumerate(_decode(container, stream)):
        label = f"frame {sequence}"
        item = ItemError(sequence, label, fault) if frame is None else _encode(frame, sequence, label, options)
        faults = faults + 1 if isinstance(item, ItemError) else 0
        if faults > _MAX_FAULTS_IN_A_ROW:
            yield ItemError(sequence, label, f"{faults} faults in a row, the last: {fault}", final=True)
            return
        yield item


def _decode(container: Any, stream: Any) -> Iterator[tuple[Any, str]]:
    import av  # noqa: PLC0415 - see read_video

    packets = iter(container.demux(stream))
    while True:
        try:
            packet = next(packets, None)
            if packet is None:
                return
            frames = packet.decode()
        except (av.FFmpegError, OSError) as error:
            yield None, f"cannot be decoded: {error}"
            if isinstance(error, av.InvalidDataError):
                continue
            return
        for frame in frames:
            yield frame, ""


def _encode(frame: Any, sequence: int, label: str, options: VideoOptions) -> Item | ItemError:
    if frame.width * frame.height > options.max_pixels:
        return ItemError(sequence, label, f"frame of {frame.width}x{frame.height}; at most {options.max_pixels} pixels")
    buffer = io.BytesIO()
    frame.to_image().save(buffer, "JPEG", quality=options.quality)
    return Item(sequence, buffer.getvalue(), JPEG, label, media_seconds=frame.time)
