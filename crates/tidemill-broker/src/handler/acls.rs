//! Access rules: there are none, and every client may do everything.
//!
//! Tools know `SECURITY_DISABLED` as the answer of a broker without an authorizer, and go on.

use crate::api::Context;
use tidemill_wire::kafka::{
    ErrorCode,
    message::{
        AclCreationResult, CreateAclsRequestData, CreateAclsResponseData, DeleteAclsFilterResult,
        DeleteAclsRequestData, DeleteAclsResponseData, DescribeAclsRequestData,
        DescribeAclsResponseData,
    },
    text,
};

const WHY: &str = "there is no authorization: everybody may do everything";

/// Shows none.
pub(crate) async fn describe(
    _: &Context<'_>,
    _: DescribeAclsRequestData,
) -> DescribeAclsResponseData {
    DescribeAclsResponseData {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some(text(WHY)),
        ..DescribeAclsResponseData::default()
    }
}

/// Makes none.
pub(crate) async fn create(
    _: &Context<'_>,
    request: CreateAclsRequestData,
) -> CreateAclsResponseData {
    let refused = AclCreationResult {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some(text(WHY)),
        ..AclCreationResult::default()
    };
    let results = vec![refused; request.creations.len()];
    CreateAclsResponseData { results, ..CreateAclsResponseData::default() }
}

/// Deletes none.
pub(crate) async fn delete(
    _: &Context<'_>,
    request: DeleteAclsRequestData,
) -> DeleteAclsResponseData {
    let refused = DeleteAclsFilterResult {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some(text(WHY)),
        ..DeleteAclsFilterResult::default()
    };
    let filter_results = vec![refused; request.filters.len()];
    DeleteAclsResponseData { filter_results, ..DeleteAclsResponseData::default() }
}
