//! Tests that the method table covers all operations.

use std::collections::BTreeSet;

use parlor_chat::api::operation;
use parlor_server::grpc::{METHOD_OPERATIONS, OPERATIONS_WITHOUT_METHOD, PARLOR_SERVICES};

#[test]
fn every_operation_has_a_method_or_a_reason_why_not() {
    let offered: BTreeSet<_> = METHOD_OPERATIONS
        .iter()
        .map(|(_, operation)| *operation)
        .collect();
    let absent: BTreeSet<_> = OPERATIONS_WITHOUT_METHOD
        .iter()
        .map(|(operation, _)| *operation)
        .collect();
    let all: BTreeSet<_> = operation::ALL_OPERATIONS.iter().map(|it| it.name).collect();
    assert_eq!(
        offered.union(&absent).copied().collect::<BTreeSet<_>>(),
        all
    );
    assert!(offered.is_disjoint(&absent));
    assert!(
        OPERATIONS_WITHOUT_METHOD
            .iter()
            .all(|(_, reason)| !reason.is_empty())
    );
}

#[test]
fn every_method_belongs_to_a_service_that_is_served() {
    let named: BTreeSet<_> = METHOD_OPERATIONS
        .iter()
        .map(|(method, _)| method.split_once('/').unwrap().0)
        .collect();
    assert_eq!(named, PARLOR_SERVICES.iter().copied().collect());
}
