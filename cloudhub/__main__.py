"""The script `cloudhub`, and `python -m cloudhub`: a stop that comes during the imports is obeyed, too."""

from __future__ import annotations

from kubeapi.signals import stop_while_starting


def main() -> None:
    stop_while_starting()
    from cloudhub.command import main as command

    command()


if __name__ == "__main__":
    main()
