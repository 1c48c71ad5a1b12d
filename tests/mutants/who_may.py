"""Faults in logins, certificates and rules: a client gets what is another one's."""

from __future__ import annotations

from mutants.copies import Mutant

RULES, SECURITY = "proxy/features/authorization", "proxy/security"
OF_RULES, OF_SASL, OF_TLS = f"tests/{RULES}", f"tests/{SECURITY}/sasl", f"tests/{SECURITY}/tls"
SESSIONS, CONTEXTS = f"{OF_RULES}/test_sessions.py", f"{OF_TLS}/test_contexts.py"
LAST_MESSAGE = (
    f"{OF_SASL}/test_verification.py::test_the_last_message_repeats_binding_and_nonce_though_its_proof_is_right",
)
MUTANTS = (
    # Rules
    Mutant(
        f"{RULES}/checks.py",
        "a topic whose id is not known counts as allowed",
        "return name is not None and self.explain(",
        "return name is None or self.explain(",
        (f"{SESSIONS}::test_a_topic_whose_id_is_not_known_is_none_that_may_be_read",),
    ),
    Mutant(
        f"{RULES}/sessions.py",
        "a fetch session is known under any rules",
        "opened.fetch == (session_id, _terms(self._rules, client, is_replica))",
        "opened.fetch is not None and opened.fetch[0] == session_id",
        (
            f"{SESSIONS}::test_a_session_ends_with_a_reload_and_its_topics_are_checked_again",
            f"{SESSIONS}::test_a_session_ends_with_another_login",
        ),
    ),
    Mutant(
        f"{RULES}/sessions.py",
        "a fetch session of another connection is gone on with",
        "not self._stage.knows(client, session_id, replica))",
        "False)",
        (f"{SESSIONS}::test_a_session_of_another_connection_is_not_found_whoever_asks",),
    ),
    Mutant(
        f"{RULES}/sessions.py",
        "a denied topic is removed from a session that goes on",
        "if epoch > 0 and (is_denied or not",
        "if epoch > 0 and (not",
        (f"{SESSIONS}::test_a_denied_topic_is_not_added_to_a_session",),
    ),
    Mutant(
        f"{RULES}/sessions.py",
        "a share session is everybody's who knows its member",
        "        elif not self._knows(asked.share_session_epoch, terms):",
        "        elif False:",
        (f"{SESSIONS}::test_a_share_session_of_another_connection_is_not_found_whatever_is_done_with_it",),
    ),
    Mutant(
        f"{RULES}/acls.py",
        "a pattern allows something to a login under an unknown name",
        "    if principal == UNKNOWN:\n",
        "    if False:\n",
        (f"{OF_RULES}/test_acls.py::test_no_pattern_allows_anything_to_a_login_under_an_unknown_name",),
    ),
    Mutant(
        f"{RULES}/descriptions.py",
        "a cursor names a topic that may not be described",
        "(shown.room <= 0 and self._may_see(cursor.topic_name))",
        "shown.room <= 0",
        (f"{OF_RULES}/test_pages.py::test_a_cursor_at_a_hidden_topic_is_one_at_the_next_that_is_not",),
    ),
    # Logins
    Mutant(
        "proxy/exchanges/sasl.py",
        "the first of two messages is enough for a name",
        "elif login.mechanism in SCRAM and not login.has_begun:",
        "elif False:",
        ("tests/proxy/exchanges/test_sasl.py::test_who_knows_a_name_and_no_password_does_not_get_the_name",),
    ),
    Mutant(
        f"{SECURITY}/sasl/verification.py",
        "the channel binding of the last message is not compared",
        ' or from_base64(fields["c"]) != GS2_HEADER',
        "",
        LAST_MESSAGE,
    ),
    Mutant(
        f"{SECURITY}/sasl/verification.py",
        "the nonce of the last message is not compared",
        ' or fields["r"].encode() != nonce',
        "",
        LAST_MESSAGE,
    ),
    # Certificates
    Mutant(
        f"{SECURITY}/tls/contexts.py",
        "the authorities of the system are trusted beside those that are configured",
        "    if tls.ca is None:\n        context.load_default_certs()\n",
        "    context.load_default_certs()\n",
        (f"{CONTEXTS}::test_the_authorities_of_the_system_are_not_trusted_beside_those_that_are_configured",),
    ),
    Mutant(
        f"{SECURITY}/tls/der.py",
        "a NUL in a subject is not escaped",
        """.replace("\\0", "\\\\00")""",
        "",
        (f"{OF_TLS}/test_der.py::test_a_name_is_written_as_java_writes_it",),
    ),
)
