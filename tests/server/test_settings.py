"""What an operator may set, where from, and what a mistake is answered with."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.server.access_file import write
from hermes_mobile.server.devices import Credential, KnownDevice
from hermes_mobile.server.loading import load_settings
from hermes_mobile.server.overview import describe, warnings
from hermes_mobile.server.settings import Settings, SettingsError
from hermes_mobile.server.values import Command, Token

TOKEN = "a-token-that-nobody-guesses"

DEFAULTS = {
    "MOBILE_EXTRA_TOKENS": (),
    "MOBILE_ALLOWED_DEVICES": frozenset(),
    "MOBILE_DELIVER_TOKENS": frozenset(),
    "MOBILE_HOME_DEVICE": "",
    "MOBILE_DELIVER_LOOPBACK": True,
    "MOBILE_TRUSTED_PROXIES": (ip_network("127.0.0.0/8"), ip_network("::1/128")),
    "MOBILE_HOST": "127.0.0.1",
    "MOBILE_PORT": 8787,
    "MOBILE_PATH": "/ws",
    "MOBILE_HTTP_HOST": "127.0.0.1",
    "MOBILE_HTTP_PORT": 8788,
    "MOBILE_AVATAR_URL": "",
    "MOBILE_DELIVER_SOCKET": None,
    "MOBILE_DELIVER_SOCKET_MODE": 0o600,
    "MOBILE_DELIVER_SOCKET_GROUP": "",
    "MOBILE_ADMIN_SOCKET": None,
    "MOBILE_TLS_CERT": None,
    "MOBILE_TLS_KEY": None,
    "MOBILE_AGENT": "demo",
    "MOBILE_AGENT_COMMAND": None,
    "MOBILE_AGENT_DIR": None,
    "MOBILE_AGENT_WAIT": 60.0,
    "MOBILE_AGENT_SOCKET": None,
    "MOBILE_AGENT_PORT": None,
    "MOBILE_AGENT_TOKEN": None,
    "MOBILE_HELLO_TIMEOUT": 15.0,
    "MOBILE_TYPING_IDLE": 3.0,
    "MOBILE_PROMPT_TTL": 300.0,
    "MOBILE_UPGRADE_TIMEOUT": 15.0,
    "MOBILE_PING_INTERVAL": 30.0,
    "MOBILE_PING_TIMEOUT": 20.0,
    "MOBILE_WRITE_TIMEOUT": 30.0,
    "MOBILE_SHUTDOWN_GRACE": 10.0,
    "MOBILE_WAKE_COMMAND": None,
    "MOBILE_WAKE_INTERVAL": 60.0,
    "MOBILE_MESSAGE_RATE": 0,
    "MOBILE_QUEUE_MESSAGES": 32,
    "MOBILE_QUEUE_BYTES": 16_777_216,
    "MOBILE_OUTBOX_FRAMES": 256,
    "MOBILE_OUTBOX_BYTES": 16_777_216,
    "MOBILE_KEEP_UNITS": 256,
    "MOBILE_KEEP_BYTES": 16_777_216,
    "MOBILE_KEEP_SECONDS": 3600.0,
    "MOBILE_MAX_SESSIONS": 10_000,
    "MOBILE_KEEP_TOTAL_BYTES": 536_870_912,
    "MOBILE_MEDIA_CHUNK_BYTES": 3_145_728,
    "MOBILE_THROTTLE_FAILURES": 10,
    "MOBILE_MAX_PENDING": 512,
    "MOBILE_MAX_PENDING_PER_ADDRESS": 32,
    "MOBILE_LOG_LEVEL": "info",
    "MOBILE_LOG_FORMAT": None,
    "MOBILE_STATE_DIR": None,
    "MOBILE_RECEIVED_BYTES": 1_073_741_824,
    "MOBILE_RECEIVED_SECONDS": 604_800.0,
}
"""The contract's table, without the token."""


def load(config: Path | None = None, /, **environ: str) -> Settings:
    return load_settings(config, {"MOBILE_TOKEN": TOKEN, **environ})


def refused(config: Path | None = None, /, **environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(config, **environ)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_every_variable_of_the_contract_has_its_default() -> None:
    """Without any variable but the token, each setting has the default of the contract's table."""
    settings = load()
    loaded = {name: getattr(settings, name[7:].lower()) for name in DEFAULTS}
    assert loaded == DEFAULTS
    assert [name for name, _, _ in describe(settings)] == ["MOBILE_TOKEN", *DEFAULTS]


def test_the_same_defaults_hold_without_loading() -> None:
    """Settings made in code differ from loaded ones in nothing but what they were given."""
    assert Settings(token=TOKEN) == load()


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("MOBILE_HOME_DEVICE", "mobile:tel-1", "tel-1"),
        ("MOBILE_HOME_DEVICE", " tel-1 ", "tel-1"),
        ("MOBILE_ALLOWED_DEVICES", "tel-1, tel-2,", frozenset({"tel-1", "tel-2"})),
        ("MOBILE_DELIVER_LOOPBACK", "OFF", False),
        ("MOBILE_DELIVER_LOOPBACK", "yes", True),
        ("MOBILE_TRUSTED_PROXIES", "10.0.0.0/8, fd00::1", ("10.0.0.0/8", "fd00::1/128")),
        ("MOBILE_TRUSTED_PROXIES", "", ()),
        ("MOBILE_HOST", "[::1]", "::1"),
        ("MOBILE_PORT", "0", 0),
        ("MOBILE_PORT", "", 8787),
        ("MOBILE_PATH", "/", "/"),
        ("MOBILE_HTTP_PORT", "off", None),
        ("MOBILE_HTTP_PORT", "0", 0),
        ("MOBILE_AVATAR_URL", "https://example.org/a/", "https://example.org/a/"),
        ("MOBILE_DELIVER_SOCKET", "/run/x/deliver.sock", Path("/run/x/deliver.sock")),
        ("MOBILE_DELIVER_SOCKET", "OFF", None),
        ("MOBILE_AGENT_SOCKET", "/run/x/agent.sock", Path("/run/x/agent.sock")),
        ("MOBILE_AGENT_WAIT", "0.5", 0.5),
        ("MOBILE_AGENT_PORT", "off", None),
        ("MOBILE_DELIVER_SOCKET_MODE", "0660", 0o660),
        ("MOBILE_DELIVER_SOCKET_GROUP", "cron", "cron"),
        ("MOBILE_AGENT_COMMAND", "an 'agent of' ours", Command(("an", "agent of", "ours"))),
        ("MOBILE_TYPING_IDLE", "0.25", 0.25),
        ("MOBILE_SHUTDOWN_GRACE", "0", 0.0),
        ("MOBILE_MEDIA_CHUNK_BYTES", "4096", 4096),
        ("MOBILE_THROTTLE_FAILURES", "0", 0),
        ("MOBILE_LOG_LEVEL", "DEBUG", "debug"),
        ("MOBILE_LOG_FORMAT", "json", "json"),
        ("MOBILE_STATE_DIR", "/var/lib/x", Path("/var/lib/x")),
    ],
)
def test_a_value_is_read(variable: str, text: str, value: object) -> None:
    """A text becomes the setting's own type; an empty one is the default, or an empty list."""
    read = getattr(load(**{variable: text}), variable[7:].lower())
    if variable == "MOBILE_TRUSTED_PROXIES":
        read = tuple(map(str, read))
    assert read == value


@pytest.mark.parametrize(
    ("variable", "text", "allowed"),
    [
        ("MOBILE_PORT", "65536", "a whole number from 0 to 65535"),
        ("MOBILE_PORT", "8_787", "a whole number from 0 to 65535"),
        ("MOBILE_HTTP_PORT", "none", "a whole number from 0 to 65535, or off"),
        ("MOBILE_PATH", "ws", "begin with /"),
        ("MOBILE_AGENT_COMMAND", "agent 'quoted", "a program and its arguments"),
        ("MOBILE_AGENT_COMMAND", "''", "a program and its arguments"),
        ("MOBILE_PATH", "/ws?token=x", "begin with /"),
        ("MOBILE_HOST", "ws://127.0.0.1", "an IP address or a host name"),
        ("MOBILE_HELLO_TIMEOUT", "0", "seconds above 0"),
        ("MOBILE_HELLO_TIMEOUT", "-1", "seconds above 0"),
        ("MOBILE_HELLO_TIMEOUT", "nan", "seconds above 0"),
        ("MOBILE_KEEP_SECONDS", "inf", "seconds above 0"),
        ("MOBILE_SHUTDOWN_GRACE", "10 s", "seconds from 0"),
        ("MOBILE_QUEUE_MESSAGES", "0", "a whole number from 1"),
        ("MOBILE_MEDIA_CHUNK_BYTES", "4095", "a whole number from 4096 to 3145728"),
        ("MOBILE_MEDIA_CHUNK_BYTES", "3145729", "a whole number from 4096 to 3145728"),
        ("MOBILE_MAX_PENDING", "-1", "a whole number from 0"),
        ("MOBILE_DELIVER_LOOPBACK", "maybe", "on or off"),
        ("MOBILE_LOG_LEVEL", "loud", "one of debug, info, warning, error, critical"),
        ("MOBILE_LOG_FORMAT", "xml", "one of console, json"),
        ("MOBILE_TRUSTED_PROXIES", "10.0.0.1/8", "IP addresses and networks"),
        ("MOBILE_ALLOWED_DEVICES", "x" * 121, "1 to 120 characters"),
        ("MOBILE_ALLOWED_DEVICES", " , ", "device ids, separated by commas"),
        ("MOBILE_HTTP_PORT", "8787", "another port than MOBILE_PORT"),
        ("MOBILE_HOME_DEVICE", "tel\x1b", "without control characters"),
        ("MOBILE_AVATAR_URL", "javascript:alert(1)", "an http:// or https:// URL"),
        ("MOBILE_DELIVER_SOCKET", "/run/" + "x" * 103, "at most 107 bytes, or off"),
        ("MOBILE_ADMIN_SOCKET", "/run/\0", "at most 107 bytes, or off"),
        ("MOBILE_DELIVER_SOCKET_MODE", "660", "four octal digits in quotes, such as 0660"),
        ("MOBILE_DELIVER_SOCKET_MODE", "0o660", "four octal digits in quotes, such as 0660"),
        ("MOBILE_DELIVER_SOCKET_MODE", "0680", "four octal digits in quotes, such as 0660"),
        ("MOBILE_DELIVER_SOCKET_GROUP", "a group", "the name of a group"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(
    variable: str, text: str, allowed: str
) -> None:
    """The one line of a refusal begins with the variable and tells what it must be."""
    message = refused(**{variable: text})
    assert message.startswith(f"{variable} must ")
    assert allowed in message


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("MOBILE_TOKEN", "two words-secret"),
        ("MOBILE_TOKEN", "bell\x07-secret"),
        ("MOBILE_TOKEN", "half\udce9-secret"),
        ("MOBILE_TOKEN", "secret" * 1000),
        ("MOBILE_EXTRA_TOKENS", "tel-1=two words-secret"),
        ("MOBILE_EXTRA_TOKENS", "=secret"),
        ("MOBILE_DELIVER_TOKENS", "two words-secret"),
    ],
)
def test_a_wrong_secret_is_refused_without_being_shown(variable: str, text: str) -> None:
    """A token with white space, unprintable characters or no device to bind stays unquoted."""
    message = refused(**{variable: text})
    assert message.startswith(variable)
    assert "secret" not in message


def test_extra_tokens_bind_at_the_first_equals_sign() -> None:
    """D8: the id ends at the first `=`, a bare token binds nothing, an id may have several."""
    settings = load(MOBILE_EXTRA_TOKENS="tel-1=a=b==, tel-1=second ,bare")
    assert settings.extra_tokens == (
        Token("a=b==", "tel-1"),
        Token("second", "tel-1"),
        Token("bare"),
    )


@pytest.mark.parametrize(
    "environ",
    [
        {"MOBILE_EXTRA_TOKENS": f"tel-1={TOKEN}"},
        {"MOBILE_DELIVER_TOKENS": TOKEN},
        {"MOBILE_EXTRA_TOKENS": "tel-1=same,tel-2=same"},
        {"MOBILE_EXTRA_TOKENS": "tel-1=same,same"},
        {"MOBILE_EXTRA_TOKENS": "same", "MOBILE_DELIVER_TOKENS": "same"},
        {"MOBILE_AGENT_TOKEN": TOKEN},
        {"MOBILE_AGENT_TOKEN": "same", "MOBILE_DELIVER_TOKENS": "same"},
    ],
)
def test_a_token_has_one_role(environ: dict[str, str]) -> None:
    """D8: one token in two roles is a configuration error."""
    message = refused(**environ)
    assert "one role" in message
    assert TOKEN not in message


def test_an_agent_by_tcp_needs_a_token() -> None:
    """A port for the agent, without a token for it, is a configuration error."""
    message = "MOBILE_AGENT_TOKEN must be set for MOBILE_AGENT_PORT"
    assert refused(MOBILE_AGENT_PORT="8789") == message
    settings = load(MOBILE_AGENT_PORT="8789", MOBILE_AGENT_TOKEN="the-token-of-the-agent")
    assert settings.agent_port == 8789
    assert ("MOBILE_AGENT_TOKEN", "****", "environment") in describe(settings)


def test_a_repeated_token_with_one_role_is_harmless() -> None:
    """D8 is about roles: the same unbound token written twice is one token."""
    assert load(MOBILE_EXTRA_TOKENS=TOKEN).tokens == {Token(TOKEN)}


def test_sources_in_their_order(tmp_path: Path) -> None:
    """Environment, then secret file, then credential, then TOML: the strongest is taken."""
    config = tmp_path / "mobile.toml"
    config.write_text('token = "from-toml"\nport = 1\npath = "/toml"\n')
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    secret_file = tmp_path / "token"
    secret_file.write_text("from-file\n")
    environ = {"MOBILE_CONFIG": str(config), "MOBILE_PORT": "2"}

    settings = load_settings(None, environ)
    assert (settings.token, settings.port, settings.path) == ("from-toml", 2, "/toml")
    sources = {name: source for name, _, source in describe(settings)}
    assert sources["MOBILE_TOKEN"] == str(config)
    assert sources["MOBILE_PORT"] == "environment"
    assert sources["MOBILE_HOST"] == "default"

    environ["CREDENTIALS_DIRECTORY"] = str(credentials)
    assert load_settings(None, environ).token == "from-toml"
    (credentials / "mobile_token").write_text("from-credential\n")
    assert load_settings(None, environ).token == "from-credential"
    environ["MOBILE_TOKEN_FILE"] = str(secret_file)
    assert load_settings(None, environ).token == "from-file"
    del environ["MOBILE_TOKEN_FILE"]
    environ["MOBILE_TOKEN"] = "from-environment"
    assert load_settings(None, environ).token == "from-environment"


def test_a_given_file_comes_before_the_named_one(tmp_path: Path) -> None:
    """`--config` is taken instead of the file that MOBILE_CONFIG names."""
    config = tmp_path / "given.toml"
    config.write_text("port = 1\n")
    assert load(config, MOBILE_CONFIG=str(tmp_path / "absent.toml")).port == 1


def test_toml_has_its_own_types(tmp_path: Path) -> None:
    """A TOML file may use numbers, booleans and lists, and name a file with a secret."""
    secret_file = tmp_path / "tokens"
    secret_file.write_text("tel-1=one\ntel-2=two\n")
    config = tmp_path / "mobile.toml"
    config.write_text(
        "deliver_loopback = false\nhttp_port = 'off'\ntyping_idle = 2.5\nprompt_ttl = 60\n"
        f"allowed_devices = ['tel-1', 'tel-2']\nextra_tokens_file = '{secret_file}'\n"
    )
    settings = load(config)
    assert settings == Settings(
        token=TOKEN,
        deliver_loopback=False,
        http_port=None,
        typing_idle=2.5,
        prompt_ttl=60.0,
        allowed_devices=frozenset({"tel-1", "tel-2"}),
        extra_tokens=(Token("one", "tel-1"), Token("two", "tel-2")),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("prot = 1", "'prot' is not a setting"),
        ("PORT = 1", "'PORT' is not a setting"),
        ("port_file = '/x'", "'port_file' is not a setting"),
        ("port = 1.5", "MOBILE_PORT must be a whole number"),
        ("port = true", "MOBILE_PORT must be a whole number"),
        ("port = {}", "MOBILE_PORT"),
        ("port = 1979-05-27", "MOBILE_PORT"),
        ('state_dir = "/a\\u0000b"', "MOBILE_STATE_DIR must be the path"),
        ("allowed_devices = [1]", "MOBILE_ALLOWED_DEVICES"),
        ("deliver_tokens = ['a,b']", "MOBILE_DELIVER_TOKENS"),
        ("port =", "not TOML"),
        ("port = '\xe9'", "not a file of UTF-8 text"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    """An unknown key, a wrong type or broken TOML is an error that names the file and the key."""
    config = tmp_path / "mobile.toml"
    config.write_text(text, "latin-1")
    message = refused(config)
    assert str(config) in message
    assert problem in message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file is an error; a secret's path is not repeated, it may be the secret itself."""
    assert "cannot be read" in refused(tmp_path / "absent.toml")
    with pytest.raises(SettingsError, match=r"^MOBILE_TOKEN_FILE cannot be read: [^/]*$"):
        load_settings(None, {"MOBILE_TOKEN_FILE": str(tmp_path / "absent")})
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match=r"^MOBILE_TOKEN_FILE must name a file of UTF-8 text$"):
        load_settings(None, {"MOBILE_TOKEN_FILE": str(binary)})


def test_an_empty_secret_file_is_no_token(tmp_path: Path) -> None:
    """A file that was meant to hold the token and is empty is an error, not a made-up token."""
    (tmp_path / "token").write_text("\n")
    with pytest.raises(SettingsError, match=r"^MOBILE_TOKEN must be a token .*MOBILE_TOKEN_FILE"):
        load_settings(None, {"MOBILE_TOKEN_FILE": str(tmp_path / "token")})


def test_a_secret_is_given_once(tmp_path: Path) -> None:
    """MOBILE_TOKEN and MOBILE_TOKEN_FILE together are an error, even if they agree."""
    (tmp_path / "token").write_text(TOKEN)
    message = refused(MOBILE_TOKEN_FILE=str(tmp_path / "token"))
    assert message == "MOBILE_TOKEN and MOBILE_TOKEN_FILE must not both be set (environment)"


def test_the_state_directory_of_systemd() -> None:
    """MOBILE_STATE_DIR wins over the first directory that systemd made."""
    systemd = {"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}
    assert load(**systemd).state_dir == Path("/var/lib/a")
    assert load(**systemd, MOBILE_STATE_DIR="/srv").state_dir == Path("/srv")


def test_where_the_sockets_are_by_default() -> None:
    """In the first runtime directory that systemd made; the admin's else in the state directory."""
    systemd = {"RUNTIME_DIRECTORY": "/run/a:/run/b", "STATE_DIRECTORY": "/var/lib/a"}
    settings = load(**systemd)
    assert settings.deliver_socket == Path("/run/a/deliver.sock")
    assert settings.admin_socket == Path("/run/a/admin.sock")
    assert ("MOBILE_ADMIN_SOCKET", "/run/a/admin.sock", "RUNTIME_DIRECTORY") in describe(settings)
    off = load(**systemd, MOBILE_DELIVER_SOCKET="off", MOBILE_ADMIN_SOCKET="off")
    assert (off.deliver_socket, off.admin_socket) == (None, None)
    by_hand = load(MOBILE_STATE_DIR="/srv")
    assert (by_hand.deliver_socket, by_hand.admin_socket) == (None, Path("/srv/admin.sock"))


def test_a_mode_is_octal_in_toml_too(tmp_path: Path) -> None:
    """A string; what TOML makes of `0o660` is a decimal number, and refused, not misread."""
    config = tmp_path / "mobile.toml"
    config.write_text('deliver_socket_mode = "0660"')
    assert ("MOBILE_DELIVER_SOCKET_MODE", "0660", f"{config}") in describe(load(config))
    config.write_text("deliver_socket_mode = 0o660")
    assert refused(config).startswith("MOBILE_DELIVER_SOCKET_MODE must be four octal digits")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_a_token_is_made_on_loopback(host: str) -> None:
    """D36: without a token, on a loopback address, each start makes up another one."""
    first, second = (load_settings(None, {"MOBILE_HOST": host}) for _ in range(2))
    assert first.token_made
    assert first.token
    assert len(first.token) == 43
    assert first.token != second.token
    assert ("MOBILE_TOKEN", "****", "made for this run") in describe(first)


@pytest.mark.parametrize(
    "environ",
    [
        {"MOBILE_HOST": "0.0.0.0"},  # noqa: S104 - the case
        {"MOBILE_HOST": "example.org"},
        {"INVOCATION_ID": "0123"},
        {"NOTIFY_SOCKET": "/run/systemd/notify"},
        {"LISTEN_FDS": "1"},
        {"MOBILE_HOST": "::", "MOBILE_DELIVER_TOKENS": "delivers-but-admits-no-app"},
    ],
)
def test_no_token_is_made_elsewhere(environ: dict[str, str]) -> None:
    """D36: under systemd, and where others can connect, an app token must be configured."""
    with pytest.raises(SettingsError, match=r"^MOBILE_TOKEN must be set"):
        load_settings(None, environ)


def test_an_extra_token_is_a_token() -> None:
    """D36: with a bound token alone, nothing is made up and any address is fine."""
    settings = load_settings(
        None,
        {"MOBILE_HOST": "::", "MOBILE_EXTRA_TOKENS": f"tel-1={TOKEN}", "INVOCATION_ID": "0123"},
    )
    assert settings.token is None
    assert not settings.token_made


@pytest.mark.parametrize(
    ("device", "made"),
    [
        (KnownDevice("tel-1", tokens=(Credential.of("t"),)), False),
        (KnownDevice("tel-1", revoked=True), False),
        (KnownDevice("tel-1", last_seen=1), True),
    ],
)
def test_a_paired_device_has_a_token(tmp_path: Path, device: KnownDevice, made: bool) -> None:
    """D36: where devices are paired nothing is made up, also when all of them were revoked since."""
    write(tmp_path, [device])
    environ = {"MOBILE_STATE_DIR": str(tmp_path)}
    assert load_settings(None, environ).token_made == made
    if not made:
        assert load_settings(None, environ | {"INVOCATION_ID": "0123"}).tokens == frozenset()


def test_a_paired_device_that_is_on_no_list(tmp_path: Path) -> None:
    """D9: it is warned about, as a bound one is; a damaged file is not a warning's to tell."""
    paired = (Credential.of("t"),)
    write(tmp_path, [KnownDevice("tel-1", tokens=paired), KnownDevice("tel-2", revoked=True)])
    settings = load(MOBILE_STATE_DIR=str(tmp_path), MOBILE_ALLOWED_DEVICES="tel-3")
    assert warnings(settings) == ["MOBILE_ALLOWED_DEVICES lacks tel-1, which was paired"]
    assert warnings(load(MOBILE_STATE_DIR=str(tmp_path))) == []
    (tmp_path / "devices.json").write_text("{")
    assert warnings(settings) == []


def test_a_damaged_access_file(tmp_path: Path) -> None:
    """It is named: whether anybody is paired cannot be told."""
    (tmp_path / "devices.json").touch()
    with pytest.raises(SettingsError, match=r"^MOBILE_STATE_DIR: .*devices\.json is damaged"):
        load_settings(None, {"MOBILE_STATE_DIR": str(tmp_path)})


def test_no_http_side_is_shown_as_off() -> None:
    """`check` shows what one would write."""
    shown = {name: value for name, value, _ in describe(load(MOBILE_HTTP_PORT="off"))}
    assert shown["MOBILE_HTTP_PORT"] == "off"


def test_a_command_is_shown_as_it_is_written() -> None:
    """With its arguments in their order, quoted where they need it."""
    shown = {name: value for name, value, _ in describe(load(MOBILE_AGENT_COMMAND="z 'a b' c"))}
    assert shown["MOBILE_AGENT_COMMAND"] == "z 'a b' c"


def test_no_secret_is_shown() -> None:
    """Neither `describe` nor the representation holds a token; bound ids are no secret."""
    settings = load(MOBILE_EXTRA_TOKENS="tel-1=hidden-one,hidden-two", MOBILE_DELIVER_TOKENS="hid")
    shown = {name: value for name, value, _ in describe(settings)}
    assert shown["MOBILE_TOKEN"] == "****"
    assert shown["MOBILE_EXTRA_TOKENS"] == "****, tel-1=****"
    assert shown["MOBILE_DELIVER_TOKENS"] == "****"
    assert shown["MOBILE_PROMPT_TTL"] == "300"
    assert shown["MOBILE_DELIVER_LOOPBACK"] == "on"
    assert shown["MOBILE_STATE_DIR"] == "-"
    for text in (repr(settings), str(shown)):
        assert "hid" not in text.replace("hidden_", "")
        assert TOKEN not in text


def test_a_sound_configuration_has_no_warnings() -> None:
    """A long token on a loopback address leaves nothing to say."""
    assert warnings(load()) == []


@pytest.mark.parametrize(
    ("environ", "word"),
    [
        ({"MOBILE_ALLOWED_DEVICES": "a", "MOBILE_EXTRA_TOKENS": f"b={TOKEN}2"}, "lacks b"),
        ({"MOBILE_ALLOWED_DEVICES": "a", "MOBILE_HOME_DEVICE": "b"}, "lacks b"),
        ({"MOBILE_TOKEN": ""}, "MOBILE_TOKEN is not set"),
        ({"MOBILE_TOKEN": "1234"}, "fewer than 16"),
        ({"MOBILE_PRT": "9000"}, "MOBILE_PRT is no setting"),
        ({"MOBILE_PORT_FILE": "/port"}, "MOBILE_PORT_FILE is no setting"),
        ({"MOBILE_HOST": "::"}, "TLS"),
        ({"MOBILE_WAKE_COMMAND": "/nonexistent/wake 'tel 1'"}, "not there"),
        ({"MOBILE_TRUSTED_PROXIES": "0.0.0.0/0"}, "trusts everyone"),
        ({"MOBILE_THROTTLE_FAILURES": "0"}, "guessed without limit"),
        ({"MOBILE_KEEP_BYTES": "1"}, "MOBILE_KEEP_BYTES"),
    ],
)
def test_a_likely_mistake_is_warned_about(environ: dict[str, str], word: str) -> None:
    """D9 and its like: what is allowed but can hardly be meant gets one line."""
    (warning,) = warnings(load(**environ))
    assert word in warning


@given(st.sampled_from(sorted(DEFAULTS)), st.text(st.characters(exclude_characters="\0")))
def test_any_text_is_read_or_refused(variable: str, text: str) -> None:
    """Whatever a variable holds, loading gives settings or a SettingsError of one line."""
    try:
        assert load(**{variable: text}).token == TOKEN
    except SettingsError:
        refused(**{variable: text})
