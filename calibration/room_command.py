"""`hearth calibrate room`: the room's frame from a fixed board, its devices, and a plan of both."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from calibration.reverberation_command import rt60
from dsp.errors import CheckFailed, InputError
from recordings.terminal import emit

room = typer.Typer(
    name="room",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="The room: its frame from a fixed board, where its devices are, how long it rings, and a plan.",
)
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout; progress on stderr.")]
RoomFile = Annotated[Path, typer.Option("--room", help="The result file of the room.")]
RigFile = Annotated[
    Path | None, typer.Option(help="rig.yaml: its devices, room size and calibration results are used.")
]
ROOM = Path("room.json")


room.command()(rt60)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@room.command()
def frame(
    pictures: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PICTURES...]",
            help="Pictures of the fixed board, three to five, all from one place; without any, live.",
        ),
    ] = None,
    camera: Annotated[
        Path | None,
        typer.Option(help="Result of `hearth calibrate camera`; default: the rig's, camera.json."),
    ] = None,
    pose: Annotated[
        Path | None, typer.Option(help="Result of `hearth calibrate pose`: where the microphone is.")
    ] = None,
    board: Annotated[
        str, typer.Option(help='As in "charuco 11x8 24mm 16mm 5x5_50"; default: the camera\'s board.')
    ] = "",
    board_at: Annotated[
        str,
        typer.Option(help='Lower left corner of its pattern in the room, "x y z" (m); default: the origin.'),
    ] = "",
    board_facing: Annotated[
        str, typer.Option(help="Where it faces: up (on the floor), +x, -x, +y, -y, down, degrees, or x y z.")
    ] = "up",
    board_top: Annotated[
        str, typer.Option(help="Where its top points; default: up on a wall, +y on floor or ceiling.")
    ] = "",
    board_sigma: Annotated[
        str,
        typer.Option(help='How well that is known, "metres degrees"; default "0.01 0.5" with --board-at.'),
    ] = "",
    camera_near: Annotated[
        str, typer.Option(help='About where the camera is, "x y z": decides when two tilts of the board fit.')
    ] = "",
    rig: RigFile = None,
    seconds: Annotated[float, typer.Option(min=5, help="Live: how long to wait for pictures.")] = 120.0,
    room_file: RoomFile = ROOM,
    page: Annotated[Path | None, typer.Option(help="Report page; default: beside the result, .html.")] = None,
    as_json: Json = False,
) -> None:
    """The room's frame: a fixed board says where the room is, and where camera and microphone are in it.

    Exit 1: the board is seen too badly; what to do about it is said.
    """
    from calibration.board import Board
    from calibration.camera_detect import choose_layout
    from calibration.outputs import refuse_overwriting
    from calibration.result import load
    from calibration.room_devices_file import older_than_frame, read_devices
    from calibration.room_devices_gather import numbers_of
    from calibration.room_frame import WeakFrame, find_frame
    from calibration.room_frame_board import FarDetector
    from calibration.room_frame_file import camera_and_covariance, save_frame
    from calibration.room_frame_pose import BoardPlace, Mount
    from calibration.room_plan_page import read_picture, refresh_page

    camera, pose = _results(rig, camera, pose)
    page = page or room_file.with_suffix(".html")
    read = [*(pictures or ()), camera, pose, rig or Path("rig.yaml")]
    refuse_overwriting({"--room": room_file, "--page": page}, read)
    result = load(camera, "camera")
    model, covariance = camera_and_covariance(result)
    words = board or str(result.result.get("board", ""))
    if not words:
        raise InputError(
            'the camera\'s result names no board; give --board, like "charuco 11x8 24mm 16mm 5x5_50"'
        )
    chosen = Board.parse(words)
    default = (0.01, 0.5) if board_at else (0.0, 0.0)
    sigma = numbers_of("--board-sigma", board_sigma, 2) if board_sigma else default
    place = BoardPlace.of(
        numbers_of("--board-at", board_at, 3) if board_at else (0.0, 0.0, 0.0),
        board_facing, board_top, *sigma,
    )  # fmt: skip
    mount = None if pose is None else Mount.of(load(pose, "pose"))
    near = numbers_of("--camera-near", camera_near, 3) if camera_near else None
    if not pictures:
        from calibration.room_frame_live import take_pictures

        pictures = take_pictures(rig, chosen, room_file, seconds, _say)
    grey: dict[Path, Any] = {}
    for path in pictures:
        image = read_picture(path)
        if (image.shape[1], image.shape[0]) != (model.width_px, model.height_px):
            raise InputError(
                f"{path}: {image.shape[1]}x{image.shape[0]} pixels; the camera was calibrated at "
                f"{model.width_px}x{model.height_px}"
            )
        grey[path] = _grey(image)
    if chosen.layouts_differ:
        chosen = choose_layout(chosen, list(grey.values())[:4])
    detector = FarDetector(chosen)
    looked = [(path, detector.find(image)) for path, image in grey.items()]
    skipped = [(path.name, "the board is not seen") for path, found in looked if found is None]
    seen = [(path.name, found) for path, found in looked if found is not None]
    if not seen:
        raise CheckFailed("no picture shows the board; let the camera see it whole, sharp and bright")
    try:
        found = find_frame(seen, chosen, place, model, covariance, mount, near)
    except WeakFrame as error:
        if as_json:
            problems = [{"problem": s.problem, "remedy": s.remedy} for s in error.shortfalls]
            emit({"good": False, "result": None, "page": None, "problems": problems}, True)
            raise typer.Exit(1) from None
        raise
    used = [path for path, _ in looked if path.name in found.corners.used]
    save_frame(room_file, found, camera=camera, pose=pose, pictures=used, skipped=skipped)
    devices = read_devices(room_file)
    warnings = list(found.warnings)
    if devices:
        warnings.append(
            f"{len(older_than_frame(room_file, devices))} devices were placed in an earlier frame: right only"
            " if the board was not moved and is described alike; else place them again"
        )
    report = refresh_page(room_file, page, None, rig)
    at, heard = found.standpoint, found.microphone
    total = found.covariance
    emit(
        {
            "good": True,
            "result": str(room_file),
            "page": str(report),
            "problems": [],
            "board": str(chosen),
            "pictures": len(used),
            "corners": at.corners,
            "rms_px": at.rms_px,
            "tilts": at.tilts,
            "T_room_camera": at.pose.ravel(),
            "camera_position_m": at.centre_m,
            "camera_position_sigma_m": total.diagonal()[3:] ** 0.5,
            "camera_turn_sigma_deg": _degrees(total),
            "T_room_microphone": None if heard is None else heard.pose.ravel(),
            "microphone_position_m": None if heard is None else heard.place_m,
            "microphone_position_sigma_m": None if heard is None else heard.covariance.diagonal()[3:] ** 0.5,
            "microphone_turn_sigma_deg": None if heard is None else _degrees(heard.covariance),
            "skipped": [{"name": n, "reason": why} for n, why in (*skipped, *found.corners.left)],
            "warnings": warnings,
        },
        as_json,
        [
            f"{at.corners} corners in {len(used)} pictures, {at.rms_px:.2f} px RMS",
            _where("camera", at.rotation, at.centre_m, total, True),
            *(
                []
                if heard is None
                else [_where("microphone", heard.rotation, heard.place_m, heard.covariance)]
            ),
            *(f"left out {name}: {why}" for name, why in (*skipped, *found.corners.left)),
            *(f"note: {text}" for text in warnings),
            f"wrote {room_file} and {report}",
        ],
    )


@room.command()
def device(
    name: Annotated[
        str,
        typer.Argument(help="The device: its id or name in --rig, or any name; may be typed with --pick."),
    ] = "",
    picture: Annotated[
        list[Path] | None,
        typer.Option(help="A picture for each --click (or for --pick); from another place: the board in it."),
    ] = None,
    click: Annotated[
        list[str] | None, typer.Option(help='Pixel of the device, "u,v"; one for each --picture.')
    ] = None,
    pick: Annotated[bool, typer.Option("--pick", help="Click in a page in the browser instead.")] = False,
    plane: Annotated[
        str, typer.Option(help="What it is on: floor, ceiling, z=0.75 (a table), x=0 or y=4.1 (a wall).")
    ] = "",
    plane_sigma: Annotated[float, typer.Option(help="How well the plane is known, in metres.")] = 0.01,
    lift: Annotated[
        float, typer.Option(help="How far above the clicked spot the device is, in metres.")
    ] = 0.0,
    marker: Annotated[
        str, typer.Option(help='The marker of --held and --pointed: "4x4_50 60mm", or a board\'s words.')
    ] = "",
    marker_id: Annotated[int | None, typer.Option(help="Its number, when more than one is seen.")] = None,
    held: Annotated[
        list[Path] | None, typer.Option(help="A picture in which the marker is held onto the device.")
    ] = None,
    pointed: Annotated[
        list[Path] | None, typer.Option(help="A picture in which the marker's top edge points at the device.")
    ] = None,
    held_sigma: Annotated[float, typer.Option(help="How near to it the marker is held, in metres.")] = 0.02,
    aim_sigma: Annotated[float, typer.Option(help="How well a hand points, in degrees.")] = 2.0,
    sound: Annotated[
        list[Path] | None, typer.Option(help="A recording of its sound; two or more, from different places.")
    ] = None,
    heard_from: Annotated[
        list[str] | None,
        typer.Option("--from", help='Of each --sound: "frame", a picture taken there, or "x y z yaw".'),
    ] = None,
    from_sigma: Annotated[str, typer.Option(help='Of "x y z yaw": metres and degrees.')] = "0.02 2",
    knocks: Annotated[
        bool, typer.Option("--knocks", help="The sounds are knocks on the device: only their start counts.")
    ] = False,
    sweep: Annotated[
        str, typer.Option(help='The sounds are sweeps that a phone at the device plays: "seconds low high".')
    ] = "",
    format_name: Annotated[
        str | None, typer.Option("--format", help="Channel order when the tags of a recording do not say.")
    ] = None,
    kind: Annotated[str, typer.Option("--type", help="Its type as in rig.yaml, when --rig has it not.")] = "",
    rig: RigFile = None,
    within: Annotated[float, typer.Option(help="Refused when not known to this at 95 %, in metres.")] = 0.10,
    remove: Annotated[bool, typer.Option("--remove", help="Take the device out of the file.")] = False,
    camera: Annotated[
        Path | None, typer.Option(help="The camera's result, if it was moved since the frame was made.")
    ] = None,
    room_file: RoomFile = ROOM,
    page: Annotated[Path | None, typer.Option(help="Report page; default: beside the result, .html.")] = None,
    as_json: Json = False,
) -> None:
    """Where a device is: clicked with a known plane or in two pictures, touched or pointed at, or heard.

    All that is given counts in one fit. Exit 1: the device's place cannot be stood for; what to add is said.
    """
    from calibration.outputs import refuse_overwriting
    from calibration.room_devices_file import remove_device
    from calibration.room_devices_rig import TYPES, device_id
    from calibration.room_plan_page import refresh_page

    page = page or room_file.with_suffix(".html")
    read = [*(picture or ()), *(held or ()), *(pointed or ()), *(sound or ()), camera, rig]
    read += [Path(text) for text in heard_from or ()]
    refuse_overwriting({"--room": room_file, "--page": page}, read)
    if remove:
        if not name:
            raise InputError("name the device to take out")
        key = device_id(name) if rig is None else _of_rig(rig, name)[0]
        remove_device(room_file, key)
        report = refresh_page(room_file, page, camera, rig)
        emit(
            {"good": True, "removed": key, "result": str(room_file), "page": str(report)},
            as_json,
            f"{key} is out of {room_file}",
        )
        return
    if kind and kind not in TYPES:
        raise InputError(f"--type {kind!r}: there are {', '.join(TYPES)}")
    if not 0.005 <= within <= 2.0:
        raise InputError(f"--within {within}: 0.005 to 2 m is possible")
    from calibration.room_devices_place import Told, place_by_picking, place_device

    told = Told(
        pictures=list(picture or ()), clicks=list(click or ()), plane=plane, plane_sigma_m=plane_sigma,
        lift_m=lift, marker=marker, marker_id=marker_id, held=list(held or ()), pointed=list(pointed or ()),
        held_sigma_m=held_sigma, aim_sigma_deg=aim_sigma, sounds=list(sound or ()),
        heard_from=list(heard_from or ()), from_sigma=from_sigma, knocks=knocks, sweep=sweep,
        format_name=format_name, within_m=within, rig=rig, kind=kind,
    )  # fmt: skip
    if pick:
        placed = place_by_picking(room_file, camera, name, told, _say)
    elif not name:
        raise InputError("name the device, or click it with --pick")
    else:
        placed = place_device(room_file, camera, name, told)
    if placed.refused is not None:
        if as_json:
            emit({"good": False, "result": None, "page": None, "problems": placed.problems}, True)
            raise typer.Exit(1)
        raise placed.refused
    report = refresh_page(room_file, page, camera, rig)
    entry = placed.entry
    emit(
        {
            "good": True,
            "result": str(room_file),
            "page": str(report),
            "problems": [],
            "id": placed.key,
            **{k: entry[k] for k in _SHOWN},
            "covariance_m2": [v for row in entry["covariance"]["matrix"] for v in row],
        },
        as_json,
        [placed.words, *(f"note: {text}" for text in entry["warnings"]), f"wrote {room_file} and {report}"],
    )


_SHOWN = (
    "name", "type", "position_m", "radius95_m", "azimuth_deg", "elevation_deg", "distance_m",
    "angle_sigma_deg", "crossing_deg", "residual", "degrees_of_freedom", "method", "warnings",
)  # fmt: skip


@room.command()
def show(
    picture: Annotated[
        Path | None, typer.Option(help="Picture to draw on; default: the first one of the frame.")
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="Also write the plan alone: .svg or .png.")] = None,
    rig: RigFile = None,
    rig_yaml: Annotated[
        bool, typer.Option("--rig-yaml", help="Print the lines of rig.yaml: devices, microphone, camera.")
    ] = False,
    write_rig: Annotated[
        Path | None, typer.Option(help="Put them into this rig file; its comments and order stay.")
    ] = None,
    camera: Annotated[
        Path | None, typer.Option(help="The camera's result, if it was moved since the frame was made.")
    ] = None,
    room_file: RoomFile = ROOM,
    page: Annotated[Path | None, typer.Option(help="Report page; default: beside the result, .html.")] = None,
    as_json: Json = False,
) -> None:
    """A plan of the room and the picture with its devices; its values for rig.yaml."""
    from calibration.outputs import refuse_overwriting
    from calibration.result import load
    from calibration.room_devices_file import older_than_frame, read_devices
    from calibration.room_devices_rig import lost_in_rig, rig_lines, rig_values
    from calibration.room_devices_rig import write_rig as edit
    from calibration.room_frame_file import read_frame
    from calibration.room_plan_page import refresh_page, room_size, write_plan

    page = page or room_file.with_suffix(".html")
    read = [room_file, picture, camera]
    refuse_overwriting({"--page": page, "--plan": plan, "--write-rig": write_rig}, read)
    refuse_overwriting({"--page": page, "--plan": plan}, [rig])
    saved = read_frame(room_file, camera)
    devices = read_devices(room_file)
    report = refresh_page(room_file, page, camera, rig, picture)
    if plan is not None:
        write_plan(plan, saved, devices, room_size(rig))
    mount = saved.T_mic_camera
    values = rig_values(devices, saved.microphone, mount)
    warnings = [text.partition(": ")[2] for text in load(room_file, "room").warnings]
    warnings += [f"{key} was placed in an earlier frame" for key in older_than_frame(room_file, devices)]
    if rig_yaml or write_rig is not None:
        warnings += lost_in_rig(saved.microphone, mount)
    lines = rig_lines(values) if rig_yaml else []
    changed = [] if write_rig is None else edit(write_rig, values)
    text = lines or [
        *(
            f"{key}: {_metres(e['position_m'])}, within {100 * e['radius95_m']:.0f} cm ({e['method']})"
            for key, e in devices.items()
        ),
        f"wrote {report}" + ("" if plan is None else f" and {plan}"),
    ]
    if write_rig is not None:
        text += [f"{write_rig}: {words}" for words in changed or ["nothing to change"]]
    if rig_yaml and not as_json:
        for note in warnings:
            _say(f"note: {note}")
    else:
        text += [f"note: {note}" for note in warnings]
    emit(
        {
            "room": str(room_file),
            "page": str(report),
            "plan": None if plan is None else str(plan),
            "devices": [
                {"id": key, **{k: e[k] for k in ("name", "type", "position_m", "radius95_m", "method")}}
                for key, e in devices.items()
            ],
            "microphone_position_m": None if saved.microphone is None else saved.microphone[1],
            "camera_position_m": saved.around.standpoints[0].centre_m,
            "rig_yaml": lines,
            "rig_changes": changed,
            "warnings": warnings,
        },
        as_json,
        text,
    )


def _results(rig: Path | None, camera: Path | None, pose: Path | None) -> tuple[Path, Path | None]:
    """Result files of camera and pose: as given, else those that the rig points to, else camera.json."""
    if rig is not None and (camera is None or pose is None):
        from capture.rig import load_rig

        named = load_rig(rig).calibration
        if camera is None and named.camera:
            camera = Path(named.camera)
        if pose is None and named.pose:
            pose = Path(named.pose)
    return camera or Path("camera.json"), pose


def _of_rig(rig: Path, name: str) -> tuple[str, Any]:
    from calibration.room_devices_rig import find_device
    from capture.rig import load_rig

    found = find_device(load_rig(rig), name)
    return found.id, found


def _grey(image: Any) -> Any:
    import cv2

    return cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)


def _degrees(covariance: Any) -> Any:
    return covariance.diagonal()[:3] ** 0.5 * 57.29577951308232


def _metres(place: Any) -> str:
    return ", ".join(f"{float(v):.3f}" for v in place) + " m"


def _where(what: str, rotation: Any, place: Any, covariance: Any, camera: bool = False) -> str:
    from calibration.room_frame_pose import angles_of

    yaw, pitch, roll = angles_of(rotation, camera)
    sigma = 100 * float(covariance.diagonal()[3:].max()) ** 0.5
    return (
        f"{what} at {_metres(place)} (within {sigma:.1f} cm), yaw {yaw:.1f}, pitch {pitch:.1f}, roll"
        f" {roll:.1f} degrees (within {float(_degrees(covariance).max()):.2f})"
    )
