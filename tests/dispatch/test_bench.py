from bench.dispatch import AIOAPNS, CLARION, HTTPX, LIBCURL, SCENES, Speed, verdict


def test_the_last_line_hides_no_scene() -> None:
    calm, *others, worst = SCENES
    usual = {CLARION: 12_000, LIBCURL: 16_000, AIOAPNS: 4_000, HTTPX: 1_000}
    speeds = dict.fromkeys((calm, *others), usual) | {worst: usual | {CLARION: 8_000}}

    line = verdict(
        {scene: {sender: Speed(speed, 0) for sender, speed in of_scene.items()} for scene, of_scene in speeds.items()}
    )

    assert line.endswith(
        "12,000 (8,000) pushes a second in one process, "
        "3.00 (2.00) times aioapns, 12.00 (8.00) times httpx, 0.75 (0.50) times bare libcurl"
    )
