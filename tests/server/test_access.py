"""Who is admitted, as what, and whose session a device id is."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.protocol.errors import ErrorCode, ProtocolError
from hermes_mobile.protocol.frames import Device, Hello, User
from hermes_mobile.server.access import DELIVER_SOCKET, Access, Peer, resolve_peer
from hermes_mobile.server.devices import Credential, Devices, KnownDevice
from hermes_mobile.server.settings import Settings
from hermes_mobile.server.values import Token

REMOTE = Peer("192.0.2.1", client="192.0.2.1")
LOCAL = Peer("127.0.0.1")
LOOPBACK = Settings().trusted_proxies

SETTINGS = Settings(
    token="app",
    extra_tokens=(Token("tablet-old", "tablet"), Token("tablet-new", "tablet"), Token("guest")),
    deliver_tokens=frozenset({"cron"}),
)


def hello(token: str, device_id: str = "tel-1") -> Hello:
    return Hello(token=token, device=Device(id=device_id, name="Phone"), user=User("u-1"))


def refusal(access: Access, hello: Hello) -> ErrorCode:
    with pytest.raises(ProtocolError) as caught:
        access.admit(hello, REMOTE)
    assert caught.value.fatal
    return caught.value.code


def test_an_app_token_admits_any_device() -> None:
    """The app token and a bare extra token admit a device as it introduced itself."""
    access = Access(SETTINGS, Devices())
    for token in ("app", "guest"):
        admission = access.admit(hello(token), REMOTE)
        assert admission.device == Device(id="tel-1", name="Phone")
        assert admission.user == User("u-1")
        granted = (admission.bound, admission.receipts, admission.may_deliver, admission.courier)
        assert not any(granted)
        assert not admission.generated


def test_receipts_are_as_asked_for() -> None:
    """D38: the hello decides whether receipts are sent."""
    asking = Hello(token="app", device=Device(id="tel-1"), receipts=True)
    assert Access(SETTINGS, Devices()).admit(asking, REMOTE).receipts


@pytest.mark.parametrize("token", ["", "ap", "app ", "App", "приложение", "\ud800", "x" * 60_000])
def test_a_wrong_token_is_auth_failed(token: str) -> None:
    """D7: a missing or different token, lone surrogates included, is `auth_failed`, fatal."""
    assert refusal(Access(SETTINGS, Devices()), hello(token)) is ErrorCode.AUTH_FAILED


def test_without_tokens_nobody_is_admitted() -> None:
    """Settings that hold no token match no hello, the empty token included."""
    assert refusal(Access(Settings(), Devices()), hello("")) is ErrorCode.AUTH_FAILED


def test_tokens_are_compared_by_their_utf8() -> None:
    """D7: a token beyond ASCII is as good as any."""
    access = Access(Settings(token="пароль"), Devices())
    assert access.admit(hello("пароль"), REMOTE).device.id == "tel-1"


def test_a_missing_id_is_made_up() -> None:
    """A device without an id gets `dev-<hex>`, another one each time."""
    access = Access(SETTINGS, Devices())
    first, second = (access.admit(hello("app", ""), REMOTE) for _ in range(2))
    assert first.generated
    assert first.device.name == "Phone"
    prefix, _, digits = first.device.id.partition("-")
    assert prefix == "dev"
    assert int(digits, 16) >= 0
    assert first.device.id != second.device.id


def test_bindings_hold_both_ways() -> None:
    """D8: a bound token is only its device's, and a bound id takes only one of its tokens."""
    access = Access(SETTINGS, Devices())
    assert access.admit(hello("tablet-old", "tablet"), REMOTE).bound
    assert access.admit(hello("tablet-new", "tablet"), REMOTE).bound
    assert refusal(access, hello("tablet-old", "tel-1")) is ErrorCode.FORBIDDEN
    assert refusal(access, hello("tablet-old", "")) is ErrorCode.FORBIDDEN
    assert refusal(access, hello("app", "tablet")) is ErrorCode.FORBIDDEN


def test_the_allow_list() -> None:
    """D9: with a list, an id outside it is `auth_failed`, and so is a made-up one."""
    access = Access(Settings(token="app", allowed_devices=frozenset({"tel-1"})), Devices())
    assert access.admit(hello("app", "tel-1"), REMOTE).device.id == "tel-1"
    assert refusal(access, hello("app", "tel-2")) is ErrorCode.AUTH_FAILED
    assert refusal(access, hello("app", "")) is ErrorCode.AUTH_FAILED


def test_the_allow_list_is_judged_before_the_binding() -> None:
    """D7: an id that is both off the list and bound to another token is `auth_failed`."""
    access = Access(
        Settings(
            token="app",
            extra_tokens=(Token("bound", "tablet"),),
            allowed_devices=frozenset({"tel-1"}),
        ),
        Devices(),
    )
    assert refusal(access, hello("app", "tablet")) is ErrorCode.AUTH_FAILED
    assert refusal(access, hello("bound", "tel-1")) is ErrorCode.FORBIDDEN


@pytest.mark.parametrize("device_id", ["", "tel-9", "tablet"])
def test_a_deliver_token_admits_no_device(device_id: str) -> None:
    """D26: it may deliver from anywhere, whatever the lists say, with the device left as sent."""
    settings = Settings(
        extra_tokens=(Token("bound", "tablet"),),
        allowed_devices=frozenset({"tel-1"}),
        deliver_tokens=frozenset({"cron"}),
    )
    admission = Access(settings, Devices()).admit(hello("cron", device_id), REMOTE)
    assert admission.courier
    assert admission.may_deliver
    assert admission.device.id == device_id
    assert not admission.generated


@pytest.mark.parametrize(
    ("peer", "may"),
    [
        (Peer("127.0.0.1"), True),
        (Peer("127.8.8.8"), True),
        (Peer("::1"), True),
        (Peer("::ffff:127.0.0.1"), True),
        (Peer("127.0.0.1", forwarded=True), False),
        (Peer("::1", forwarded=True), False),
        (Peer("192.0.2.1"), False),
        (Peer("unix"), False),
    ],
)
def test_loopback_peers_may_deliver(peer: Peer, may: bool) -> None:
    """D26: the privilege is the real peer's, and lost behind a proxy."""
    assert Access(SETTINGS, Devices()).admit(hello("app"), peer).may_deliver is may


def test_the_loopback_privilege_can_be_turned_off() -> None:
    """D26: MOBILE_DELIVER_LOOPBACK=off is for proxies that add no header."""
    access = Access(Settings(token="app", deliver_loopback=False), Devices())
    assert not access.admit(hello("app"), LOCAL).may_deliver


@pytest.mark.parametrize("live", [True, False])
def test_who_owns_a_session(live: bool) -> None:
    """D10: a bound token and the same token always; another unbound one only an idle session."""
    access = Access(SETTINGS, Devices())
    app, guest = (access.admit(hello(token), REMOTE) for token in ("app", "guest"))
    old, new = (access.admit(hello(f"tablet-{age}", "tablet"), REMOTE) for age in ("old", "new"))
    assert access.owns(app, app.credential, live)
    assert access.owns(new, old.credential, live)
    assert access.owns(guest, app.credential, live) is not live


def test_a_token_no_longer_valid_owns_nothing() -> None:
    """D10: a session whose token has gone passes to whoever is admitted under its id."""
    access = Access(SETTINGS, Devices())
    assert access.owns(access.admit(hello("app"), REMOTE), Credential.of("withdrawn"), True)


def test_a_credential_shows_no_token() -> None:
    """Credentials of one token are equal and hash alike; their text tells nothing."""
    assert {Credential.of("app"), Credential.of("app")} == {Credential.of("app")}
    assert Credential.of("app") != Credential.of("App")
    assert repr(Credential.of("app")) == "Credential()"


TRUSTED = (*LOOPBACK, ip_network("10.0.0.0/8"))


PAIRED = KnownDevice("tel-1", tokens=(Credential.of("old"), Credential.of("new")))


def test_paired_tokens_bind_both_ways() -> None:
    """D8: each admits its one device, which no other token admits any more."""
    access = Access(SETTINGS, Devices([PAIRED]))
    for token in ("old", "new"):
        assert access.admit(hello(token), REMOTE).bound
        assert refusal(access, hello(token, "tel-2")) is ErrorCode.FORBIDDEN
        assert refusal(access, hello(token, "")) is ErrorCode.FORBIDDEN
    assert refusal(access, hello("app")) is ErrorCode.FORBIDDEN
    assert access.admit(hello("app", "tel-2"), REMOTE).device.id == "tel-2"


def test_a_bound_device_may_be_paired_as_well() -> None:
    """D8: the settings' tokens for a device and the paired ones are valid side by side."""
    devices = Devices([KnownDevice("tablet", tokens=(Credential.of("paired"),))])
    access = Access(SETTINGS, devices)
    for token in ("tablet-old", "tablet-new", "paired"):
        assert access.admit(hello(token, "tablet"), REMOTE).bound


def test_a_revoked_device_is_refused() -> None:
    """Whatever token it shows, a bound one included, it is `auth_failed`; others are not concerned."""
    access = Access(SETTINGS, Devices([KnownDevice("tel-1", revoked=True)]))
    for token in ("app", "guest", "tablet-old"):
        assert refusal(access, hello(token)) is ErrorCode.AUTH_FAILED
    assert access.admit(hello("app", "tel-2"), REMOTE).device.id == "tel-2"


def test_the_socket_for_deliveries_is_a_credential() -> None:
    """D26: who may connect to it needs no token, and may only deliver."""
    for token in ("", "wrong", "app"):
        admission = Access(SETTINGS, Devices()).admit(hello(token, ""), Peer(DELIVER_SOCKET))
        assert (admission.courier, admission.may_deliver) == (True, True)
        assert (admission.bound, admission.generated) == (False, False)
        assert Access(Settings(), Devices()).refusal(admission) is None


@pytest.mark.parametrize(
    ("token", "device_id", "later", "known", "code"),
    [
        ("app", "tel-1", SETTINGS, [], None),
        ("app", "", SETTINGS, [], None),
        ("tablet-new", "tablet", SETTINGS, [], None),
        ("cron", "", SETTINGS, [], None),
        ("app", "tel-1", Settings(token="another"), [], ErrorCode.AUTH_FAILED),
        ("cron", "", Settings(token="app"), [], ErrorCode.AUTH_FAILED),
        ("cron", "", Settings(token="cron"), [], ErrorCode.AUTH_FAILED),
        ("app", "", evolve(SETTINGS, allowed_devices={"tel-1"}), [], ErrorCode.AUTH_FAILED),
        ("app", "tel-2", evolve(SETTINGS, allowed_devices={"tel-1"}), [], ErrorCode.AUTH_FAILED),
        ("app", "tel-1", evolve(SETTINGS, allowed_devices={"tel-1"}), [], None),
        ("app", "tel-1", SETTINGS, [PAIRED], ErrorCode.FORBIDDEN),
        ("app", "tel-1", SETTINGS, [KnownDevice("tel-1", revoked=True)], ErrorCode.AUTH_FAILED),
    ],
)
def test_what_was_granted_is_judged_again(token, device_id, later, known, code) -> None:
    """D7 to D9, D26: an admission lasts exactly as long as its hello would still be granted it."""
    admission = Access(SETTINGS, Devices()).admit(hello(token, device_id), REMOTE)
    refused = Access(later, Devices(known)).refusal(admission)
    assert (refused and refused.code) == code


@pytest.mark.parametrize(
    ("address", "headers", "client"),
    [
        ("192.0.2.1", {}, "192.0.2.1"),
        ("::ffff:192.0.2.1", {}, "192.0.2.1"),
        ("192.0.2.1", {"x-forwarded-for": "198.51.100.7"}, "192.0.2.1"),
        ("127.0.0.1", {}, None),
        ("unix", {}, None),
        ("127.0.0.1", {"x-forwarded-for": "198.51.100.7"}, "198.51.100.7"),
        ("unix", {"x-forwarded-for": "198.51.100.7"}, "198.51.100.7"),
        ("::ffff:10.1.1.1", {"x-forwarded-for": "198.51.100.7"}, "198.51.100.7"),
        ("127.0.0.1", {"x-forwarded-for": "1.1.1.1, 198.51.100.7, 10.0.0.3"}, "198.51.100.7"),
        ("127.0.0.1", {"x-forwarded-for": "10.0.0.2, 10.0.0.3"}, None),
        ("127.0.0.1", {"x-forwarded-for": "198.51.100.7, unknown, "}, "198.51.100.7"),
        ("127.0.0.1", {"x-forwarded-for": "nonsense"}, None),
        ("127.0.0.1", {"x-forwarded-for": "198.51.100.7:4711"}, "198.51.100.7"),
        ("127.0.0.1", {"x-forwarded-for": "[2001:db8::7]:4711"}, "2001:db8::7"),
        ("127.0.0.1", {"x-forwarded-for": "2001:db8::7"}, "2001:db8::7"),
        ("127.0.0.1", {"x-forwarded-for": "fe80::7%eth0"}, "fe80::7"),
        ("127.0.0.1", {"x-real-ip": "198.51.100.7"}, "198.51.100.7"),
        ("127.0.0.1", {"forwarded": "for=198.51.100.7;proto=https"}, "198.51.100.7"),
        ("127.0.0.1", {"forwarded": 'proto=https;For="[2001:db8::7]:4711"'}, "2001:db8::7"),
        ("127.0.0.1", {"forwarded": "for=1.1.1.1, for=198.51.100.7"}, "198.51.100.7"),
        ("127.0.0.1", {"forwarded": 'for="1.1.1.1, for="[2001:db8::7]"'}, "2001:db8::7"),
        ("127.0.0.1", {"forwarded": "for=198.51.100.7, for=_hidden, by=10.0.0.1"}, "198.51.100.7"),
        (
            "127.0.0.1",
            {"forwarded": "for=1.1.1.1", "x-forwarded-for": "198.51.100.7"},
            "198.51.100.7",
        ),
    ],
)
def test_the_client_behind_proxies(
    address: str, headers: dict[str, str], client: str | None
) -> None:
    """D37: the right-most forwarded address that is no trusted proxy, told only by one."""
    raw = {name.encode(): [value.encode()] for name, value in headers.items()}
    assert resolve_peer(address, raw, TRUSTED) == Peer(address, bool(headers), client)


def test_repeated_headers_are_one_list() -> None:
    """D37: a proxy may add a line of its own instead of extending the client's."""
    headers = {b"x-forwarded-for": [b"1.1.1.1", b"198.51.100.7"]}
    assert resolve_peer("127.0.0.1", headers, TRUSTED).client == "198.51.100.7"


def test_an_empty_header_is_still_a_proxy() -> None:
    """D26: the presence of a forwarding header is what takes the loopback privilege away."""
    peer = resolve_peer("127.0.0.1", {b"x-real-ip": [b""]}, TRUSTED)
    assert peer.forwarded
    assert not peer.loopback


@given(
    st.dictionaries(
        st.sampled_from([b"forwarded", b"x-forwarded-for", b"x-real-ip"]),
        st.lists(st.binary() | st.text('0123456789.:,;="[] fo').map(str.encode), max_size=3),
    )
)
def test_any_header_can_be_read(headers: dict[bytes, list[bytes]]) -> None:
    """D37: garbage is ignored, and never names a trusted proxy as the client."""
    peer = resolve_peer("127.0.0.1", headers, TRUSTED)
    assert peer.client is None or resolve_peer(peer.client, {}, TRUSTED).client == peer.client
