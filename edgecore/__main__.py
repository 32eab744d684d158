"""The script `edgecore`, and `python -m edgecore`: a stop that comes during the imports is obeyed, too."""

from __future__ import annotations

from kubeapi.signals import stop_while_starting


def main() -> None:
    stop_while_starting()
    from edgecore.command import main as command

    command()


if __name__ == "__main__":
    main()
