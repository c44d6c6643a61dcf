//! Who owns a stream or a group in Postgres, and who may come to own it.
//!
//! The owner is written beside the thing itself, so that two resources, of one cluster or of two,
//! can never both believe that it is theirs.

use sqlx::FromRow;
use thiserror::Error;
use uuid::Uuid;

use crate::api::Adoption;

/// A resource of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// UID of the resource.
    pub uid: Uuid,
    /// Where it is, as `namespace/name`.
    pub reference: String,
    /// Which cluster it is in: the UID of its kube-system namespace, or what the operator was told.
    pub cluster_id: String,
}

/// The owner columns of a row: all null, or none.
#[derive(Clone, Debug, Default, FromRow)]
pub(super) struct OwnerColumns {
    owner_uid: Option<Uuid>,
    owner_ref: Option<String>,
    cluster_id: Option<String>,
}

impl OwnerColumns {
    pub(super) fn owner(self) -> Option<Owner> {
        Some(Owner {
            uid: self.owner_uid?,
            reference: self.owner_ref?,
            cluster_id: self.cluster_id?,
        })
    }
}

/// Why a resource may not touch what is there already. Says how it could.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NotOwned {
    /// It belongs to another resource.
    #[error(
        "it belongs to {reference} (UID {uid}) of cluster {cluster_id}; use another name, or, if that resource is lost for \
         ever, take it over with the annotation {annotation}: {uid}",
        reference = .0.reference, uid = .0.uid, cluster_id = .0.cluster_id, annotation = crate::api::TAKE_OVER_ANNOTATION
    )]
    Other(Owner),
    /// It has no owner, and the resource was told not to adopt.
    #[error("it exists without an owner and adoption is Never; set adoption: IfUnowned to adopt it")]
    NotAdopted,
}

/// Whether `claimant` may have what `current` owns.
///
/// # Errors
/// Why it may not.
pub fn may_own(
    current: Option<&Owner>,
    claimant: &Owner,
    adoption: Adoption,
    take_over_from: Option<Uuid>,
) -> Result<(), NotOwned> {
    match current {
        Some(owner) if owner.uid == claimant.uid && owner.cluster_id == claimant.cluster_id => Ok(()),
        Some(owner) if take_over_from == Some(owner.uid) => Ok(()),
        Some(owner) => Err(NotOwned::Other(owner.clone())),
        None if adoption == Adoption::Never => Err(NotOwned::NotAdopted),
        None => Ok(()),
    }
}
